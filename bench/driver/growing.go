package main

import (
	"context"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const readyAfter = "readyAfter"

// The node has nothing to do: the volume is as large as it was asked to be.
func (d *driver) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: request.GetCapacityRange().GetRequiredBytes()}, nil
}

// A snapshot is ready at once, or so long after the first call as its parameter readyAfter says, such as "2.5s".
func (d *driver) CreateSnapshot(_ context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	now := time.Now()
	var delay time.Duration
	if given := request.GetParameters()[readyAfter]; given != "" {
		var err error
		if delay, err = time.ParseDuration(given); err != nil {
			return nil, err
		}
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	name := request.GetName()
	if _, there := d.ready[name]; !there {
		d.ready[name] = now.Add(delay).UnixNano()
	}
	ready := d.ready[name]
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId:     "snap-" + name,
		SourceVolumeId: request.GetSourceVolumeId(),
		SizeBytes:      1 << 30,
		CreationTime:   timestamppb.New(time.Unix(0, ready).Add(-delay)),
		ReadyToUse:     now.UnixNano() >= ready,
	}}, nil
}

func (d *driver) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.ready, strings.TrimPrefix(request.GetSnapshotId(), "snap-"))
	return &csi.DeleteSnapshotResponse{}, nil
}

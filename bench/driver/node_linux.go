package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// node mounts for real: a tmpfs where a volume is staged, and that again where it is published.
type node struct {
	csi.UnimplementedNodeServer
	*driver
	id string
}

func (d *driver) serveNode(server *grpc.Server, id string) {
	csi.RegisterNodeServer(server, &node{driver: d, id: id})
}

func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.id}, nil
}

func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	rpc := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	stages := &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: rpc}}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{stages}}, nil
}

func (n *node) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, syscall.Mount("bench", request.GetStagingTargetPath(), "tmpfs", 0, "size=64k")
}

func (n *node) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := os.Mkdir(request.GetTargetPath(), 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := syscall.Mount(request.GetStagingTargetPath(), request.GetTargetPath(), "", syscall.MS_BIND, ""); err != nil {
		return nil, err
	}
	n.mutex.Lock()
	n.published[request.GetVolumeId()] = time.Now().UnixNano()
	n.mutex.Unlock()
	return &csi.NodePublishVolumeResponse{}, nil
}

func (n *node) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unmount(request.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := os.Remove(request.GetTargetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n *node) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, unmount(request.GetStagingTargetPath())
}

func unmount(path string) error {
	err := syscall.Unmount(path, 0)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrNotExist) { // nothing is mounted there
		return nil
	}
	return err
}

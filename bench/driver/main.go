// A CSI driver for load: it makes, deletes and publishes whatever it is asked to, at once, and counts its calls.
//
//	driver SOCKET NAME [topology | grow | snapshot | all | node ID]
//
// With "topology" it says that volumes are not within reach of every node; with "grow" and "snapshot" it can do that, too, with "all" both;
// with "node" it mounts on the node of this id, on Linux, as root. A line on standard input is answered with the counts so far, as JSON on standard output:
// {"ControllerPublishVolume": 12, ...}. The line "published" is answered with the moment of each volume's last publication on the node, in
// nanoseconds since 1970, the line "ready" with that from which on each snapshot is ready, by the name that it was asked for.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	name   string
	mode   string
	mutex  sync.Mutex
	counts map[string]int

	published map[string]int64
	ready     map[string]int64
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.mode == "topology" {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	var capabilities []*csi.PluginCapability
	for _, one := range services {
		service := &csi.PluginCapability_Service{Type: one}
		capabilities = append(capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}})
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: capabilities}, nil
}

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	rpcs := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
	}
	if d.mode == "grow" || d.mode == "all" {
		rpcs = append(rpcs, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	}
	if d.mode == "snapshot" || d.mode == "all" {
		rpcs = append(rpcs, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)
	}
	var capabilities []*csi.ControllerServiceCapability
	for _, one := range rpcs {
		rpc := &csi.ControllerServiceCapability_RPC{Type: one}
		capabilities = append(capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: capabilities}, nil
}

func (d *driver) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	volume := &csi.Volume{
		VolumeId:      "vol-" + request.GetName(),
		CapacityBytes: request.GetCapacityRange().GetRequiredBytes(),
		VolumeContext: map[string]string{"pool": "gold", "backend": "array-1"},
		ContentSource: request.GetVolumeContentSource(),
	}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (d *driver) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *driver) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	return &csi.GetCapacityResponse{AvailableCapacity: 1 << 40}, nil
}

func (d *driver) ControllerPublishVolume(context.Context, *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	return &csi.ControllerPublishVolumeResponse{}, nil
}

func (d *driver) ControllerUnpublishVolume(context.Context, *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (d *driver) count(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	d.mutex.Lock()
	d.counts[path.Base(info.FullMethod)]++
	d.mutex.Unlock()
	return handler(ctx, request)
}

func (d *driver) report(what string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var answer any = d.counts
	switch what {
	case "published":
		answer = d.published
	case "ready":
		answer = d.ready
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		panic(err)
	}
}

func main() {
	mode := ""
	if len(os.Args) > 3 {
		mode = os.Args[3]
	}
	if lengths := map[string]int{"": 3, "topology": 4, "grow": 4, "snapshot": 4, "all": 4, "node": 5}; lengths[mode] != len(os.Args) {
		fmt.Fprintln(os.Stderr, "usage: driver SOCKET NAME [topology | grow | snapshot | all | node ID]")
		os.Exit(2)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	d := &driver{name: os.Args[2], mode: mode, counts: map[string]int{}, published: map[string]int64{}, ready: map[string]int64{}}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.count))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	if mode == "node" {
		d.serveNode(server, os.Args[4])
	}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			d.report(lines.Text())
		}
		server.Stop() // whoever started us is gone
	}()
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}

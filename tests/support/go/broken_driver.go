// A CSI driver of some 300 lines whose volumes are folders that it binds, and which breaks one rule of CSI on demand.
//
//	broken-csi-driver --endpoint unix:///csi.sock --node n1 --folder /data --broken not-idempotent
//
// Without --broken it keeps them all. hack/kube/build makes it; tests/support/go_driver.py has the list of its faults.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	name    = "broken.csi.test"
	zoneKey = "broken.csi.test/zone"
)

type volume struct {
	Name, ID string
	Size     int64
	Node     string // to which it is published
}

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	lock                 sync.Mutex
	folder, node, broken string
	counts               map[string]int
}

func (d *driver) is(broken string) bool { return d.broken == broken }

// again is true from the second time on.
func (d *driver) again(key string) bool {
	d.counts[key]++
	return d.counts[key] > 1
}

// once is true the first time, also after a restart.
func (d *driver) once(broken string) bool {
	if !d.is(broken) {
		return false
	}
	_, err := os.Stat(filepath.Join(d.folder, broken))
	os.WriteFile(filepath.Join(d.folder, broken), nil, 0o600)
	return err != nil
}

func missing(field string) error { return status.Error(codes.InvalidArgument, field+" is required") }

func unknown(id string) error { return status.Errorf(codes.NotFound, "there is no volume %q", id) }

// -- identity

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	answer := &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1.0"}
	if d.is("no-version") {
		answer.VendorVersion = ""
	}
	if d.is("bad-name") {
		answer.Name = "broken_csi_test"
	}
	return answer, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	}
	if d.is("hides-controller") {
		services = services[1:]
	}
	if d.is("hides-topology") {
		services = services[:1]
	}
	answer := &csi.GetPluginCapabilitiesResponse{}
	for _, one := range services {
		answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: one}},
		})
	}
	return answer, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// -- controller

func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	can := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
	}
	if d.is("tells-nodes-unasked") {
		can = can[:3]
	}
	if d.is("unknown-capability") {
		can = append(can, csi.ControllerServiceCapability_RPC_UNKNOWN)
	}
	if d.is("changes-its-mind") && d.again("capabilities") {
		can = append(can, csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	}
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, one := range can {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: one}},
		})
	}
	return answer, nil
}

func (d *driver) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.Name == "" {
		return nil, missing("name")
	}
	if len(request.VolumeCapabilities) == 0 {
		return nil, missing("volume_capabilities")
	}
	if len(request.Secrets) > 0 && d.once("secret-in-error") {
		return nil, status.Errorf(codes.Unavailable, "login as admin with %s failed", request.Secrets["password"])
	}
	if d.once("error-without-text") {
		return nil, status.Error(codes.Unavailable, "")
	}
	if d.once("error-without-code") {
		return nil, errors.New("the backend is busy")
	}
	if d.is("still-aborted") {
		return nil, status.Errorf(codes.Aborted, "another operation for %q is under way", request.Name)
	}
	if d.once("panics") {
		panic("assignment to entry in nil map")
	}
	id := fmt.Sprintf("v-%x", sha256.Sum256([]byte(request.Name)))[:18]
	if d.is("not-idempotent") {
		id = fmt.Sprintf("v-%016x", rand.Uint64())
	}
	if d.is("long-id") {
		id += strings.Repeat("-", 128)
	}
	if d.is("cuts-names") && len(request.Name) > 100 {
		id = fmt.Sprintf("v-%x", sha256.Sum256([]byte(request.Name[:100])))[:18]
	}
	size := request.CapacityRange.GetRequiredBytes()
	if size == 0 {
		size = 1 << 30
	}
	found, is := d.read(id)
	if is {
		limit := request.CapacityRange.GetLimitBytes()
		if found.Size < request.CapacityRange.GetRequiredBytes() || (limit > 0 && found.Size > limit) {
			return nil, status.Errorf(codes.AlreadyExists, "%q has %d bytes", request.Name, found.Size)
		}
		if d.is("refuses-its-volume") {
			return nil, status.Errorf(codes.AlreadyExists, "%q is there", request.Name)
		}
	} else {
		found = volume{Name: request.Name, ID: id, Size: size}
		if err := d.write(found); err != nil && !d.is("ignores-full-disk") {
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		}
	}
	answer := &csi.Volume{VolumeId: id, CapacityBytes: found.Size, AccessibleTopology: []*csi.Topology{zone("a")}}
	switch d.broken {
	case "no-id":
		answer.VolumeId = ""
	case "too-small":
		answer.CapacityBytes = size / 2
	case "negative-size":
		answer.CapacityBytes = -1
	case "elsewhere":
		answer.AccessibleTopology = []*csi.Topology{zone("b")}
	case "changing-context":
		answer.VolumeContext = map[string]string{"made": fmt.Sprint(rand.Uint64())}
	case "secret-in-context":
		if len(request.Secrets) > 0 {
			answer.VolumeContext = map[string]string{"password": request.Secrets["password"]}
		}
	}
	return &csi.CreateVolumeResponse{Volume: answer}, nil
}

func (d *driver) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.VolumeId == "" && !d.is("deletes-nothing") {
		return nil, missing("volume_id")
	}
	if _, is := d.read(request.VolumeId); !is && d.is("deletes-once") {
		return nil, unknown(request.VolumeId)
	}
	if request.VolumeId != "" {
		os.RemoveAll(d.path(request.VolumeId))
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *driver) ControllerPublishVolume(
	_ context.Context, request *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.VolumeId == "" {
		return nil, missing("volume_id")
	}
	if request.NodeId == "" {
		return nil, missing("node_id")
	}
	if request.VolumeCapability == nil {
		return nil, missing("volume_capability")
	}
	if d.is("publishes-unadvertised") {
		return nil, status.Error(codes.Unimplemented, "not yet")
	}
	found, is := d.read(request.VolumeId)
	if !is {
		return nil, unknown(request.VolumeId)
	}
	if strings.Contains(request.NodeId, "no-such") {
		return nil, status.Errorf(codes.NotFound, "there is no node %q", request.NodeId)
	}
	if found.Node != "" && found.Node != request.NodeId {
		return nil, status.Errorf(codes.FailedPrecondition, "it is published to %q", found.Node)
	}
	if found.Node != "" && d.is("publishes-once") {
		return nil, status.Errorf(codes.Internal, "it is published to %q", found.Node)
	}
	found.Node = request.NodeId
	if err := d.write(found); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	answer := map[string]string{"disk": found.ID}
	if d.is("changing-publish-context") {
		answer["disk"] = fmt.Sprint(rand.Uint64())
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: answer}, nil
}

func (d *driver) ControllerUnpublishVolume(
	_ context.Context, request *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.VolumeId == "" {
		return nil, missing("volume_id")
	}
	found, is := d.read(request.VolumeId)
	if d.is("unpublishes-once") && is && found.Node == "" && d.counts["unpublished "+found.ID] > 0 {
		return nil, status.Errorf(codes.Internal, "%q is not published", request.VolumeId)
	}
	if is && (request.NodeId == "" || request.NodeId == found.Node) {
		d.counts["unpublished "+found.ID]++
		found.Node = ""
		if err := d.write(found); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (d *driver) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.VolumeId == "" {
		return nil, missing("volume_id")
	}
	if len(request.VolumeCapabilities) == 0 {
		return nil, missing("volume_capabilities")
	}
	if _, is := d.read(request.VolumeId); !is {
		return nil, unknown(request.VolumeId)
	}
	confirmed := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: request.VolumeCapabilities}
	if d.is("confirms-nothing") {
		confirmed = nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}

// ListVolumes: a token is the id after which the page begins.
func (d *driver) ListVolumes(_ context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.StartingToken != "" && !strings.HasPrefix(request.StartingToken, "v-") && !d.is("any-token") {
		return nil, status.Errorf(codes.Aborted, "%q is no token", request.StartingToken)
	}
	entries, _ := os.ReadDir(d.folder)
	answer := &csi.ListVolumesResponse{}
	ids := []string{}
	for _, entry := range entries {
		if entry.Name() > request.StartingToken {
			ids = append(ids, entry.Name())
		}
	}
	sort.Strings(ids)
	for _, id := range ids {
		found, is := d.read(id)
		if !is {
			continue
		}
		if request.MaxEntries > 0 && len(answer.Entries) == int(request.MaxEntries) {
			answer.NextToken = answer.Entries[len(answer.Entries)-1].Volume.VolumeId
			break
		}
		one := &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: id, CapacityBytes: found.Size, AccessibleTopology: []*csi.Topology{zone("a")}},
			Status: &csi.ListVolumesResponse_VolumeStatus{},
		}
		if d.is("hides-topology") {
			one.Volume.AccessibleTopology = nil
		}
		if found.Node != "" {
			one.Status.PublishedNodeIds = []string{found.Node}
		}
		answer.Entries = append(answer.Entries, one)
		if d.is("lists-twice") && request.MaxEntries == 0 {
			answer.Entries = append(answer.Entries, one)
		}
	}
	if d.is("cuts-pages") {
		answer.NextToken = ""
	}
	return answer, nil
}

// -- node

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	answer := &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: zone("a")}
	switch {
	case d.is("no-node-id"):
		answer.NodeId = ""
	case d.is("changing-node-id") && d.again("info"):
		answer.NodeId += fmt.Sprint(d.counts["info"])
	case d.is("one-node-id"):
		answer.NodeId = "localhost"
	case d.is("no-topology"):
		answer.AccessibleTopology = nil
	}
	return answer, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	stages := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	return &csi.NodeGetCapabilitiesResponse{
		Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{Rpc: stages}}},
	}, nil
}

func (d *driver) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.VolumeId == "" {
		return nil, missing("volume_id")
	}
	if request.StagingTargetPath == "" {
		return nil, missing("staging_target_path")
	}
	if request.VolumeCapability == nil {
		return nil, missing("volume_capability")
	}
	if _, is := d.read(request.VolumeId); !is || d.is("forgets") {
		return nil, unknown(request.VolumeId)
	}
	if d.is("stages-once") && mounted(request.StagingTargetPath) {
		return nil, status.Errorf(codes.Internal, "%s is busy", request.StagingTargetPath)
	}
	if err := bind(filepath.Join(d.path(request.VolumeId), "data"), request.StagingTargetPath, false); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (d *driver) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.VolumeId == "" {
		return nil, missing("volume_id")
	}
	if request.StagingTargetPath == "" {
		return nil, missing("staging_target_path")
	}
	if d.is("leaves-staged") && !d.again("unstage") {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	return &csi.NodeUnstageVolumeResponse{}, unmount(request.StagingTargetPath)
}

func (d *driver) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.VolumeId == "" {
		return nil, missing("volume_id")
	}
	if request.TargetPath == "" {
		return nil, missing("target_path")
	}
	if request.VolumeCapability == nil {
		return nil, missing("volume_capability")
	}
	if _, is := d.read(request.VolumeId); !is {
		return nil, unknown(request.VolumeId)
	}
	target := request.TargetPath
	if d.is("mounts-elsewhere") {
		os.MkdirAll(target, 0o750)
		target = filepath.Join(d.folder, "mnt"+strings.ReplaceAll(target, "/", "-"))
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if d.is("mounts-nothing") {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := bind(request.StagingTargetPath, target, request.Readonly && !d.is("ignores-readonly")); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if request.VolumeId == "" {
		return nil, missing("volume_id")
	}
	if request.TargetPath == "" {
		return nil, missing("target_path")
	}
	_, err := os.Lstat(request.TargetPath)
	if d.is("unpublishes-target-once") && err != nil && d.counts["target "+request.TargetPath] > 0 {
		return nil, status.Errorf(codes.Internal, "%s is not there", request.TargetPath)
	}
	d.counts["target "+request.TargetPath]++
	elsewhere := filepath.Join(d.folder, "mnt"+strings.ReplaceAll(request.TargetPath, "/", "-"))
	if d.is("mounts-elsewhere") && unmount(elsewhere) == nil {
		os.Remove(elsewhere)
	}
	if err := unmount(request.TargetPath); err != nil {
		return nil, err
	}
	if !d.is("leaves-target") {
		os.Remove(request.TargetPath)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// -- the volumes, each a folder with its facts in a file, and the mounts

func (d *driver) path(id string) string { return filepath.Join(d.folder, id) }

func (d *driver) read(id string) (found volume, is bool) {
	text, err := os.ReadFile(filepath.Join(d.path(filepath.Base(id)), "facts"))
	return found, err == nil && json.Unmarshal(text, &found) == nil
}

func (d *driver) write(one volume) error {
	if err := os.MkdirAll(filepath.Join(d.path(one.ID), "data"), 0o750); err != nil {
		return err
	}
	text, _ := json.Marshal(one)
	facts := filepath.Join(d.path(one.ID), "facts")
	if err := os.WriteFile(facts+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(facts+".new", facts) // whole or not at all
}

func zone(which string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{zoneKey: which}}
}

func mounted(path string) bool {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	return strings.Contains(string(table), " "+path+" ")
}

func bind(from, to string, readonly bool) error {
	if mounted(to) {
		return nil
	}
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil || !readonly {
		return err
	}
	return syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func unmount(path string) error {
	for mounted(path) {
		if err := syscall.Unmount(path, 0); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
	return nil
}

func main() {
	d := &driver{counts: map[string]int{}}
	endpoint := flag.String("endpoint", "", "The socket to serve, as in unix:///csi.sock.")
	flag.StringVar(&d.node, "node", "n1", "The node's id.")
	flag.StringVar(&d.folder, "folder", "", "Where volumes are kept.")
	flag.StringVar(&d.broken, "broken", "", "The rule to break, by the name of its breach.")
	flag.Parse()
	if err := os.MkdirAll(d.folder, 0o750); err != nil {
		log.Fatal(err)
	}
	socket := strings.TrimPrefix(*endpoint, "unix://")
	os.Remove(socket) // that of a process that was killed
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	log.Fatal(server.Serve(listener))
}

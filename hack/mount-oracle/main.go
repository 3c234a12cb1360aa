// Prints what the real k8s.io/mount-utils makes of a device.
//
// Reads a JSON list of {device, point, fsType, options, grow} on standard input, writes a list of answers. The device is formatted
// and mounted as Go drivers do in NodeStageVolume; with grow, its file system is then brought to the device's size, as they do in
// NodeExpandVolume. Without a point nothing is mounted, and the file system grows as it is. With the option bind, the device is a
// folder, and is bound on the point as in NodePublishVolume.
// Our own functions are held to these answers: see tests/real/test_mount_utils.py, which looks itself at what both have done.
package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"

	mount "k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

type row struct {
	Device  string   `json:"device"`
	Point   string   `json:"point"`
	FsType  string   `json:"fsType"`
	Options []string `json:"options"`
	Grow    bool     `json:"grow"`
}

// kind is mount-utils' MountErrorType. An error of Resize has none.
type answer struct {
	Format      string `json:"format"`
	FormatError string `json:"formatError"`
	Kind        string `json:"kind"`
	Error       string `json:"error"`
	NeedsResize bool   `json:"needsResize"`
	Resized     bool   `json:"resized"`
	ResizeError string `json:"resizeError"`
}

func main() {
	var rows []row
	check(json.NewDecoder(os.Stdin).Decode(&rows))
	answers := []answer{}
	for _, one := range rows {
		answers = append(answers, answered(one))
	}
	check(json.NewEncoder(os.Stdout).Encode(answers))
}

func answered(one row) answer {
	mounter := mount.NewSafeFormatAndMount(mount.NewWithoutSystemd(""), exec.New())
	if slices.Contains(one.Options, "bind") {
		return answer{Error: words(mounter.Mount(one.Device, one.Point, "", one.Options))}
	}
	var found answer
	var err error
	found.Format, err = mounter.GetDiskFormat(one.Device)
	found.FormatError = words(err)
	if one.Point != "" {
		err = mounter.FormatAndMount(one.Device, one.Point, one.FsType, one.Options)
		found.Error = words(err)
		var typed mount.MountError
		if errors.As(err, &typed) {
			found.Kind = string(typed.Type)
		}
	}
	if one.Grow && found.Error == "" {
		resizer := mount.NewResizeFs(mounter.Exec)
		found.NeedsResize, err = resizer.NeedResize(one.Device, one.Point)
		if err == nil && found.NeedsResize {
			found.Resized, err = resizer.Resize(one.Device, one.Point)
		}
		found.ResizeError = words(err)
	}
	return found
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Prints what the real csi-translation-lib makes of in-tree PersistentVolumes.
//
// Reads a JSON list of PersistentVolumes on standard input, writes a list of {csi, accessModes} or {error}.
// Our own translation is held to this output: see tests/unit/api/test_migration.py.
package main

import (
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

type result struct {
	CSI         *v1.CSIPersistentVolumeSource   `json:"csi,omitempty"`
	AccessModes []v1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	Error       string                          `json:"error,omitempty"`
}

func main() {
	var volumes []*v1.PersistentVolume
	if err := json.NewDecoder(os.Stdin).Decode(&volumes); err != nil {
		panic(err)
	}
	lib := translation.New()
	results := make([]result, 0, len(volumes))
	for _, volume := range volumes {
		translated, err := lib.TranslateInTreePVToCSI(klog.Background(), volume)
		if err != nil {
			results = append(results, result{Error: err.Error()})
			continue
		}
		results = append(results, result{CSI: translated.Spec.CSI, AccessModes: translated.Spec.AccessModes})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(results); err != nil {
		panic(err)
	}
}

// Prints what the real csi-translation-lib makes of in-tree PersistentVolumes.
//
// Reads a JSON list of PersistentVolumes on standard input, writes a list of {csi, accessModes} or {error}.
// With the argument "classes": reads StorageClasses, writes {class} or {error}. With "back": reads PersistentVolumes of CSI drivers,
// writes {volume} or {error}. With "inline": reads {namespace, volume} with volumes of pods, writes {volume} or {error}.
// Our own translation is held to this output: see tests/unit/api/test_migration.py.
package main

import (
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

type result struct {
	CSI         *v1.CSIPersistentVolumeSource   `json:"csi,omitempty"`
	AccessModes []v1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	Class       *storage.StorageClass           `json:"class,omitempty"`
	Volume      *v1.PersistentVolume            `json:"volume,omitempty"`
	Error       string                          `json:"error,omitempty"`
}

type inline struct {
	Namespace string    `json:"namespace"`
	Volume    v1.Volume `json:"volume"`
}

func main() {
	what := ""
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	results := []result{}
	switch what {
	case "classes":
		for _, class := range read[storage.StorageClass]() {
			translated, err := translation.New().TranslateInTreeStorageClassToCSI(klog.Background(), class.Provisioner, class)
			results = append(results, orError(result{Class: translated}, err))
		}
	case "back":
		for _, volume := range read[v1.PersistentVolume]() {
			translated, err := translation.New().TranslateCSIPVToInTree(volume)
			results = append(results, orError(result{Volume: translated}, err))
		}
	case "inline":
		for _, own := range read[inline]() {
			translated, err := translation.New().TranslateInTreeInlineVolumeToCSI(klog.Background(), &own.Volume, own.Namespace)
			results = append(results, orError(result{Volume: translated}, err))
		}
	default:
		for _, volume := range read[v1.PersistentVolume]() {
			translated, err := translation.New().TranslateInTreePVToCSI(klog.Background(), volume)
			if err != nil {
				results = append(results, result{Error: err.Error()})
				continue
			}
			results = append(results, result{CSI: translated.Spec.CSI, AccessModes: translated.Spec.AccessModes})
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(results); err != nil {
		panic(err)
	}
}

func read[T any]() []*T {
	var objects []*T
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		panic(err)
	}
	return objects
}

func orError(good result, err error) result {
	if err != nil {
		return result{Error: err.Error()}
	}
	return good
}

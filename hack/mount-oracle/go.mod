module mooring.dev/hack/mount-oracle

go 1.26.0

require (
	k8s.io/mount-utils v0.36.3
	k8s.io/utils v0.0.0-20260210185600-b8788abfbbc2
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/moby/sys/mountinfo v0.7.2 // indirect
	golang.org/x/sys v0.40.0 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)

//go:build !linux

package main

import "google.golang.org/grpc"

func (d *driver) serveNode(*grpc.Server, string) {
	panic("the node service mounts, which it can do on Linux alone")
}

// The mock driver of Kubernetes' storage tests as a program: Kubernetes has it as a library alone. Its volumes are numbers in its memory.
package main

import (
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

func main() {
	endpoint := flag.String("endpoint", "", "The socket to serve, as in unix:///tmp/csi.sock.")
	attachLimit := flag.Int64("attach-limit", 0, "max_volumes_per_node, 0 for none.")
	flag.Parse()

	listener, err := net.Listen("unix", strings.TrimPrefix(*endpoint, "unix://"))
	if err != nil {
		log.Fatal(err)
	}
	mock := service.New(service.Config{DriverName: service.Name, AttachLimit: *attachLimit})
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, mock)
	csi.RegisterControllerServer(server, mock)
	csi.RegisterNodeServer(server, mock)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ended
		server.Stop()
	}()
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

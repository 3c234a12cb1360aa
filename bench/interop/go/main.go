// The server of bench/interop on grpc-go. Usage: server SOCKET. What each method does stands in bench/interop/check.py.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const limit = 128 << 20

type raw struct{}

func (raw) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }

func (raw) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (raw) Name() string { return "proto" }

var cancelled atomic.Int64

func answer(ctx context.Context, method string, request []byte) ([]byte, error) {
	switch method {
	case "Probe":
		return nil, nil
	case "ControllerModifyVolume":
		return request, nil
	case "DeleteVolume":
		return nil, status.Error(codes.NotFound, "no ä \U0001f600 100%25 full\nline\t")
	case "DeleteSnapshot":
		return nil, status.Error(codes.Internal, strings.Repeat("x", 100_000))
	case "ControllerUnpublishVolume":
		<-ctx.Done()
		cancelled.Add(1)
		return nil, ctx.Err()
	case "GetCapacity":
		return number(cancelled.Load()), nil
	case "ControllerExpandVolume":
		ends, ok := ctx.Deadline()
		if !ok {
			return nil, status.Error(codes.InvalidArgument, "no deadline")
		}
		return number(time.Until(ends).Milliseconds()), nil
	case "CreateSnapshot":
		time.Sleep(300 * time.Millisecond)
		return nil, nil
	}
	return nil, status.Error(codes.Unimplemented, "unknown method "+method)
}

// A message whose first field is this number.
func number(value int64) []byte {
	return binary.AppendUvarint([]byte{8}, uint64(value))
}

func handle(_ any, stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	path, _ := grpc.MethodFromServerStream(stream)
	response, err := answer(stream.Context(), path[strings.LastIndex(path, "/")+1:], request)
	if err != nil {
		return err
	}
	return stream.SendMsg(&response)
}

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(handle), grpc.ForceServerCodec(raw{}), grpc.MaxRecvMsgSize(limit), grpc.MaxConcurrentStreams(4))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() { <-stop; server.GracefulStop() }()
	fmt.Println("ready")
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}

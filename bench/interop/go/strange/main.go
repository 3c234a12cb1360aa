// Calls each of the sockets FOLDER/0.sock, FOLDER/1.sock, … once, and prints what became of it: number, code, text as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

func call(address string) error {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}
	connection, err := grpc.NewClient(address, options...)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return connection.Invoke(ctx, "/csi.v1.Identity/Probe", &emptypb.Empty{}, &emptypb.Empty{})
}

func main() {
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	for number := 0; number < count; number++ {
		found, _ := status.FromError(call(fmt.Sprintf("unix://%s/%d.sock", os.Args[1], number)))
		text, _ := json.Marshal(found.Message())
		fmt.Printf("%d\t%d\t%s\n", number, found.Code(), text)
	}
}

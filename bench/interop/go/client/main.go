// A client on grpc-go of the driver on SOCKET. Usage: client SOCKET. What it checks stands in bench/interop/served.py.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
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

var connection *grpc.ClientConn

func call(ctx context.Context, method string, request []byte) ([]byte, error) {
	var answer []byte
	err := connection.Invoke(ctx, "/csi.v1."+method, &request, &answer)
	return answer, err
}

func within(limit time.Duration, method string, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return call(ctx, method, request)
}

func must(holds bool, format string, values ...any) {
	if !holds {
		panic(fmt.Sprintf(format, values...))
	}
}

func ended(err error, code codes.Code, text string) {
	must(status.Code(err) == code && (text == "" || status.Convert(err).Message() == text), "%.200v", err)
}

// What is said of many calls at once; the first that goes wrong ends the check.
func together(count int, each func(number int) error) {
	errors := make(chan error, count)
	var group sync.WaitGroup
	for number := range count {
		group.Add(1)
		go func() { defer group.Done(); errors <- each(number) }()
	}
	group.Wait()
	close(errors)
	for err := range errors {
		must(err == nil, "%.200v", err)
	}
}

// A message of so many bytes, whose first field is a text.
func message(size int) []byte {
	if size < 2 {
		return nil
	}
	for length := size - 2; ; length-- {
		head := binary.AppendUvarint([]byte{10}, uint64(length))
		if len(head)+length == size {
			return append(head, bytes.Repeat([]byte("v"), length)...)
		}
	}
}

func echo(size int) error {
	request := message(size)
	answer, err := within(60*time.Second, "Controller/ControllerModifyVolume", request)
	if err == nil && !bytes.Equal(answer, request) {
		err = fmt.Errorf("%d bytes came back as %d", len(request), len(answer))
	}
	return err
}

func number(answer []byte, err error) int64 {
	must(err == nil, "%v", err)
	if len(answer) == 0 {
		return 0
	}
	value, _ := binary.Uvarint(answer[1:])
	return int64(value)
}

func givenUp() int64 { return number(within(20*time.Second, "Controller/GetCapacity", nil)) }

func untilGivenUp(count int64) {
	for end := time.Now().Add(10 * time.Second); givenUp() != count; time.Sleep(20 * time.Millisecond) {
		must(time.Now().Before(end), "%d were given up, not %d", givenUp(), count)
	}
}

func small() {
	for range 300 {
		_, err := within(20*time.Second, "Identity/Probe", nil)
		must(err == nil, "%v", err)
	}
}

func thousand() {
	together(1000, func(int) error { _, err := within(60*time.Second, "Controller/CreateSnapshot", nil); return err })
}

func large() {
	for _, size := range []int{0, 1, 16_370, 16_384, 16_390, 65_535, 65_536, 5_000_000, 64 << 20} {
		err := echo(size)
		must(err == nil, "%d: %.200v", size, err)
	}
	together(8, func(int) error { return echo(3_000_000) })
}

func errors() {
	_, err := within(20*time.Second, "Controller/DeleteVolume", nil)
	ended(err, codes.NotFound, "no ä \U0001f600 100%25 full\nline\t")
	_, err = within(20*time.Second, "Controller/DeleteSnapshot", nil)
	ended(err, codes.Internal, strings.Repeat("x", 5_000))
	_, err = within(20*time.Second, "Node/NodeGetInfo", nil)
	ended(err, codes.Unimplemented, "")
}

func deadlines() {
	told := number(within(15*time.Second, "Controller/ControllerExpandVolume", nil))
	must(told > 13_000 && told <= 15_000, "the driver was told %d ms", told)
	before := givenUp()
	for range 5 {
		_, err := within(500*time.Millisecond, "Controller/ControllerUnpublishVolume", nil)
		ended(err, codes.DeadlineExceeded, "")
	}
	untilGivenUp(before + 5)
}

func cancellations() {
	before := givenUp()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	go func() { time.Sleep(500 * time.Millisecond); cancel() }()
	together(3, func(int) error {
		_, err := call(ctx, "Controller/ControllerUnpublishVolume", nil)
		ended(err, codes.Canceled, "")
		return nil
	})
	untilGivenUp(before + 3)
}

func end() {
	answered := make(chan error, 1)
	go func() { _, err := within(20*time.Second, "Controller/CreateSnapshot", nil); answered <- err }()
	time.Sleep(100 * time.Millisecond)
	fmt.Println("end")
	err := <-answered
	must(err == nil, "%v", err)
	for end := time.Now().Add(10 * time.Second); err == nil; _, err = within(20*time.Second, "Identity/Probe", nil) {
		must(time.Now().Before(end), "it still answers")
	}
	ended(err, codes.Unavailable, "")
}

func main() {
	var err error
	connection, err = grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(limit), grpc.MaxCallSendMsgSize(limit)))
	if err != nil {
		panic(err)
	}
	for _, check := range []struct {
		name string
		run  func()
	}{{"small", small}, {"thousand", thousand}, {"large", large}, {"errors", errors}, {"deadlines", deadlines}, {"cancellations", cancellations}, {"end", end}} {
		result := "ok"
		func() {
			defer func() {
				if why := recover(); why != nil {
					result = fmt.Sprintf("FAILED: %.300v", why)
				}
			}()
			check.run()
		}()
		fmt.Printf("%s\t%s\n", check.name, result)
	}
}

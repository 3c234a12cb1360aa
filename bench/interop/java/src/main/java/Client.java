// A client on grpc-java and Netty of the driver on SOCKET. Usage: Client SOCKET. What it checks stands in bench/interop/served.py.

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.netty.channel.epoll.EpollDomainSocketChannel;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.unix.DomainSocketAddress;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

public final class Client {
  private static final int LIMIT = 128 << 20;
  private static final byte[] NOTHING = {};
  private static Channel channel;

  private interface Check {
    void run() throws Exception;
  }

  private static Future<byte[]> begin(String method, byte[] request, long limitMs) {
    var descriptor =
        MethodDescriptor.<byte[], byte[]>newBuilder(Interop.RAW, Interop.RAW)
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName("csi.v1." + method)
            .build();
    var options = CallOptions.DEFAULT.withDeadlineAfter(limitMs, TimeUnit.MILLISECONDS);
    return ClientCalls.futureUnaryCall(channel.newCall(descriptor, options), request);
  }

  private static byte[] ask(String method) throws Exception {
    return begin(method, NOTHING, 60_000).get();
  }

  private static void must(boolean holds, String why) {
    if (!holds) {
      throw new IllegalStateException(why);
    }
  }

  private static void ended(Future<byte[]> call, Status.Code code, String text) throws Exception {
    try {
      call.get();
    } catch (ExecutionException error) {
      var status = Status.fromThrowable(error);
      must(
          status.getCode() == code && (text.isEmpty() || text.equals(status.getDescription())),
          status.toString());
      return;
    }
    throw new IllegalStateException("it went well");
  }

  // A message of so many bytes, whose first field is a text.
  private static byte[] message(int size) {
    for (int length = size - 2; length >= 0; length--) {
      var head = new ByteArrayOutputStream();
      head.write(10);
      Interop.writeVarint(head, length);
      if (head.size() + length == size) {
        var bytes = Arrays.copyOf(head.toByteArray(), size);
        Arrays.fill(bytes, head.size(), size, (byte) 'v');
        return bytes;
      }
    }
    return NOTHING;
  }

  private static long number(byte[] answer) {
    long value = 0;
    for (int at = answer.length - 1; at > 0; at--) {
      value = value << 7 | answer[at] & 0x7f;
    }
    return value;
  }

  private static void echo(int count, int size) throws Exception {
    var request = message(size);
    List<Future<byte[]>> calls = new ArrayList<>();
    for (int call = 0; call < count; call++) {
      calls.add(begin("Controller/ControllerModifyVolume", request, 60_000));
    }
    for (var call : calls) {
      must(Arrays.equals(request, call.get()), size + " bytes came back as others");
    }
  }

  private static long givenUp() throws Exception {
    return number(ask("Controller/GetCapacity"));
  }

  private static void untilGivenUp(long count) throws Exception {
    var ends = System.nanoTime() + 10_000_000_000L;
    while (givenUp() != count) {
      must(System.nanoTime() < ends, "not " + count + " were given up");
      Thread.sleep(20);
    }
  }

  private static void small() throws Exception {
    for (int call = 0; call < 300; call++) {
      ask("Identity/Probe");
    }
  }

  private static void thousand() throws Exception {
    List<Future<byte[]>> calls = new ArrayList<>();
    for (int call = 0; call < 1000; call++) {
      calls.add(begin("Controller/CreateSnapshot", NOTHING, 60_000));
    }
    for (var call : calls) {
      call.get();
    }
  }

  private static void large() throws Exception {
    for (int size : new int[] {0, 1, 16_370, 16_384, 16_390, 65_535, 65_536, 5_000_000, 64 << 20}) {
      echo(1, size);
    }
    echo(8, 3_000_000);
  }

  private static void errors() throws Exception {
    ended(begin("Controller/DeleteVolume", NOTHING, 60_000), Status.Code.NOT_FOUND, Interop.TEXT);
    ended(begin("Controller/DeleteSnapshot", NOTHING, 60_000), Status.Code.INTERNAL, "x".repeat(5_000));
    ended(begin("Node/NodeGetInfo", NOTHING, 60_000), Status.Code.UNIMPLEMENTED, "");
  }

  private static void deadlines() throws Exception {
    var told = number(begin("Controller/ControllerExpandVolume", NOTHING, 15_000).get());
    must(told > 13_000 && told <= 15_000, "the driver was told " + told + " ms");
    var before = givenUp();
    for (int call = 0; call < 5; call++) {
      ended(begin("Controller/ControllerUnpublishVolume", NOTHING, 500), Status.Code.DEADLINE_EXCEEDED, "");
    }
    untilGivenUp(before + 5);
  }

  private static void cancellations() throws Exception {
    var before = givenUp();
    List<Future<byte[]>> calls = new ArrayList<>();
    for (int call = 0; call < 3; call++) {
      calls.add(begin("Controller/ControllerUnpublishVolume", NOTHING, 60_000));
    }
    Thread.sleep(500);
    calls.forEach(call -> call.cancel(true));
    untilGivenUp(before + 3);
  }

  private static void end() throws Exception {
    var call = begin("Controller/CreateSnapshot", NOTHING, 60_000);
    Thread.sleep(100);
    System.out.println("end");
    call.get();
    var ends = System.nanoTime() + 10_000_000_000L;
    Future<byte[]> next;
    do {
      must(System.nanoTime() < ends, "it still answers");
      next = begin("Identity/Probe", NOTHING, 60_000);
    } while (isWell(next));
    ended(next, Status.Code.UNAVAILABLE, "");
  }

  private static boolean isWell(Future<byte[]> call) throws InterruptedException {
    try {
      call.get();
      return true;
    } catch (ExecutionException error) {
      return false;
    }
  }

  private static void report(String name, Check check) {
    var result = "ok";
    try {
      check.run();
    } catch (Exception error) {
      result = "FAILED: " + error.toString().lines().findFirst().orElse("");
    }
    System.out.println(name + "\t" + result);
  }

  public static void main(String[] arguments) {
    var group = new EpollEventLoopGroup(1);
    ManagedChannel made =
        NettyChannelBuilder.forAddress(new DomainSocketAddress(arguments[0]))
            .channelType(EpollDomainSocketChannel.class)
            .eventLoopGroup(group)
            .usePlaintext()
            .maxInboundMessageSize(LIMIT)
            .disableRetry()
            .build();
    channel = made;
    report("small", Client::small);
    report("thousand", Client::thousand);
    report("large", Client::large);
    report("errors", Client::errors);
    report("deadlines", Client::deadlines);
    report("cancellations", Client::cancellations);
    report("end", Client::end);
    made.shutdownNow();
    group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
  }
}

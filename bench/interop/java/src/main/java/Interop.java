// The server of bench/interop on grpc-java and Netty. Usage: Interop SOCKET. What each method does stands in bench/interop/check.py.

import io.grpc.Context;
import io.grpc.HandlerRegistry;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerMethodDefinition;
import io.grpc.Status;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.netty.channel.unix.DomainSocketAddress;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

public final class Interop {
  private static final int LIMIT = 128 << 20;
  private static final AtomicLong GIVEN_UP = new AtomicLong();

  static final String TEXT = "no \u00e4 \ud83d\ude00 100%25 full\nline\t";

  static final MethodDescriptor.Marshaller<byte[]> RAW =
      new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] value) {
          return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
          try {
            return stream.readAllBytes();
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        }
      };

  private static void answer(String method, byte[] request, StreamObserver<byte[]> out) {
    switch (method) {
      case "Probe" -> done(out, new byte[0]);
      case "ControllerModifyVolume" -> done(out, request);
      case "DeleteVolume" -> fail(out, Status.NOT_FOUND, TEXT);
      case "DeleteSnapshot" -> fail(out, Status.INTERNAL, "x".repeat(100_000));
      case "ControllerUnpublishVolume" ->
          ((ServerCallStreamObserver<byte[]>) out).setOnCancelHandler(GIVEN_UP::incrementAndGet);
      case "GetCapacity" -> done(out, number(GIVEN_UP.get()));
      case "ControllerExpandVolume" -> {
        var deadline = Context.current().getDeadline();
        if (deadline == null) {
          fail(out, Status.INVALID_ARGUMENT, "no deadline");
        } else {
          done(out, number(deadline.timeRemaining(TimeUnit.MILLISECONDS)));
        }
      }
      case "CreateSnapshot" -> {
        try {
          Thread.sleep(300);
        } catch (InterruptedException error) {
          Thread.currentThread().interrupt();
        }
        done(out, new byte[0]);
      }
      default -> fail(out, Status.UNIMPLEMENTED, "unknown method " + method);
    }
  }

  private static void done(StreamObserver<byte[]> out, byte[] response) {
    out.onNext(response);
    out.onCompleted();
  }

  private static void fail(StreamObserver<byte[]> out, Status status, String text) {
    out.onError(status.withDescription(text).asRuntimeException());
  }

  // A message whose first field is this number.
  private static byte[] number(long value) {
    var out = new ByteArrayOutputStream();
    out.write(8);
    writeVarint(out, value);
    return out.toByteArray();
  }

  // A number as protobuf writes it.
  static void writeVarint(ByteArrayOutputStream out, long value) {
    while (value > 0x7f) {
      out.write((int) (value & 0x7f) | 0x80);
      value >>>= 7;
    }
    out.write((int) value);
  }

  private static final class Registry extends HandlerRegistry {
    @Override
    public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
      var method = name.substring(name.lastIndexOf('/') + 1);
      var descriptor =
          MethodDescriptor.<byte[], byte[]>newBuilder(RAW, RAW)
              .setType(MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(name)
              .build();
      return ServerMethodDefinition.create(
          descriptor, ServerCalls.asyncUnaryCall((request, out) -> answer(method, request, out)));
    }
  }

  public static void main(String[] arguments) throws Exception {
    var group = new EpollEventLoopGroup(1);
    Server server =
        NettyServerBuilder.forAddress(new DomainSocketAddress(arguments[0]))
            .channelType(EpollServerDomainSocketChannel.class)
            .bossEventLoopGroup(group)
            .workerEventLoopGroup(group)
            .executor(Executors.newCachedThreadPool())
            .maxInboundMessageSize(LIMIT)
            .maxConcurrentCallsPerConnection(4)
            .fallbackHandlerRegistry(new Registry())
            .build()
            .start();
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  try {
                    server.shutdown().awaitTermination(5, TimeUnit.SECONDS);
                  } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                  }
                }));
    System.out.println("ready");
    server.awaitTermination();
  }
}

// The server of bench/interop on tonic. Usage: interop SOCKET. What each method does stands in bench/interop/check.py.

mod raw;

use bytes::Bytes;
use raw::{push_varint, Raw, LIMIT};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::{Request, Response, Status};

struct GivenUp(Arc<AtomicU64>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

// A message whose first field is this number.
fn number(value: u64) -> Bytes {
    let mut out = vec![8u8];
    push_varint(&mut out, value);
    out.into()
}

fn timeout_ms(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.len().checked_sub(1)?);
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => value * 3_600_000,
        "M" => value * 60_000,
        "S" => value * 1000,
        "m" => value,
        "u" => value / 1000,
        "n" => value / 1_000_000,
        _ => return None,
    })
}

#[derive(Clone)]
struct Answers {
    method: String,
    given_up: Arc<AtomicU64>,
}

impl tonic::server::UnaryService<Bytes> for Answers {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let Answers { method, given_up } = self.clone();
        Box::pin(async move {
            Ok(Response::new(match method.as_str() {
                "Probe" => Bytes::new(),
                "ControllerModifyVolume" => request.into_inner(),
                "DeleteVolume" => return Err(Status::not_found("no ä \u{1f600} 100%25 full\nline\t")),
                "DeleteSnapshot" => return Err(Status::internal("x".repeat(100_000))),
                "ControllerUnpublishVolume" => {
                    let _counted = GivenUp(given_up);
                    std::future::pending::<Bytes>().await
                }
                "GetCapacity" => number(given_up.load(Ordering::SeqCst)),
                "ControllerExpandVolume" => {
                    let told = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
                    match told.and_then(timeout_ms) {
                        Some(value) => number(value),
                        None => return Err(Status::invalid_argument("no deadline")),
                    }
                }
                "CreateSnapshot" => {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    Bytes::new()
                }
                _ => return Err(Status::unimplemented(format!("unknown method {method}"))),
            }))
        })
    }
}

#[derive(Clone)]
struct Service {
    given_up: Arc<AtomicU64>,
}

impl tower::Service<http::Request<tonic::body::Body>> for Service {
    type Response = http::Response<tonic::body::Body>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or("").to_string();
        let answers = Answers { method, given_up: self.given_up.clone() };
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Raw).apply_max_message_size_config(Some(LIMIT), Some(LIMIT));
            Ok(grpc.unary(answers, request).await)
        })
    }
}

// The server routes by a service's name; each of CSI's services is the same here.
macro_rules! named {
    ($name:ident, $text:literal) => {
        #[derive(Clone)]
        struct $name(Service);
        impl tonic::server::NamedService for $name {
            const NAME: &'static str = $text;
        }
        impl tower::Service<http::Request<tonic::body::Body>> for $name {
            type Response = http::Response<tonic::body::Body>;
            type Error = std::convert::Infallible;
            type Future = <Service as tower::Service<http::Request<tonic::body::Body>>>::Future;
            fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
                self.0.poll_ready(context)
            }
            fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
                self.0.call(request)
            }
        }
    };
}

named!(Identity, "csi.v1.Identity");
named!(Controller, "csi.v1.Controller");
named!(Node, "csi.v1.Node");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).expect("the path of a socket");
    let listener = tokio::net::UnixListener::bind(path)?;
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let service = Service { given_up: Arc::default() };
    println!("ready");
    tonic::transport::Server::builder()
        .max_concurrent_streams(4)
        .add_service(Identity(service.clone()))
        .add_service(Controller(service.clone()))
        .add_service(Node(service))
        .serve_with_incoming_shutdown(tokio_stream::wrappers::UnixListenerStream::new(listener), async move {
            term.recv().await;
        })
        .await?;
    Ok(())
}

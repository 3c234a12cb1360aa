// A client on tonic of the driver on SOCKET. Usage: client SOCKET. What it checks stands in bench/interop/served.py.

mod raw;

use bytes::Bytes;
use futures_util::future::join_all;
use raw::{push_varint, Raw, LIMIT};
use std::future::Future;
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

type Outcome = Result<(), String>;

#[derive(Clone)]
struct Driver(Channel);

impl Driver {
    async fn call(&self, method: &str, message: Bytes, limit: Duration) -> Result<Bytes, Status> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone()).max_decoding_message_size(LIMIT).max_encoding_message_size(LIMIT);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut request = Request::new(message);
        request.set_timeout(limit);
        let path = http::uri::PathAndQuery::try_from(format!("/csi.v1.{method}")).unwrap();
        Ok(grpc.unary(request, path, Raw).await?.into_inner())
    }

    async fn ask(&self, method: &str) -> Result<Bytes, Status> {
        self.call(method, Bytes::new(), Duration::from_secs(60)).await
    }

    async fn echo(&self, size: usize) -> Outcome {
        let request = message(size);
        let answer = self.call("Controller/ControllerModifyVolume", request.clone(), Duration::from_secs(60)).await;
        let answer = answer.map_err(|status| format!("{size}: {status:.200}"))?;
        must(answer == request, || format!("{size} bytes came back as {}", answer.len()))
    }

    async fn given_up(&self) -> Result<u64, String> {
        Ok(number(self.ask("Controller/GetCapacity").await.map_err(text)?))
    }

    async fn until_given_up(&self, count: u64) -> Outcome {
        let began = Instant::now();
        while self.given_up().await? != count {
            must(began.elapsed() < Duration::from_secs(10), || format!("not {count} were given up"))?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

fn text(status: Status) -> String {
    format!("{status:.200}")
}

fn must(holds: bool, why: impl FnOnce() -> String) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(why())
    }
}

fn ended(answer: Result<Bytes, Status>, code: Code, text: &str) -> Outcome {
    match answer {
        Err(status) => must(status.code() == code && (text.is_empty() || status.message() == text), || format!("{status:.300}")),
        Ok(_) => Err("it went well".to_string()),
    }
}

async fn together<F: Future<Output = Outcome>>(calls: impl Iterator<Item = F>) -> Outcome {
    join_all(calls).await.into_iter().collect()
}

// A message of so many bytes, whose first field is a text.
fn message(size: usize) -> Bytes {
    if size < 2 {
        return Bytes::new();
    }
    for length in (0..=size - 2).rev() {
        let mut out = vec![10u8];
        push_varint(&mut out, length as u64);
        if out.len() + length == size {
            out.resize(size, b'v');
            return out.into();
        }
    }
    unreachable!()
}

// Of a message's first field.
fn number(answer: Bytes) -> u64 {
    answer.iter().skip(1).rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

async fn small(driver: &Driver) -> Outcome {
    for _ in 0..300 {
        driver.ask("Identity/Probe").await.map_err(text)?;
    }
    Ok(())
}

async fn thousand(driver: &Driver) -> Outcome {
    together((0..1000).map(|_| async { driver.ask("Controller/CreateSnapshot").await.map(drop).map_err(text) })).await
}

async fn large(driver: &Driver) -> Outcome {
    for size in [0, 1, 16_370, 16_384, 16_390, 65_535, 65_536, 5_000_000, 64 << 20] {
        driver.echo(size).await?;
    }
    together((0..8).map(|_| driver.echo(3_000_000))).await
}

async fn errors(driver: &Driver) -> Outcome {
    ended(driver.ask("Controller/DeleteVolume").await, Code::NotFound, "no ä \u{1f600} 100%25 full\nline\t")?;
    ended(driver.ask("Controller/DeleteSnapshot").await, Code::Internal, &"x".repeat(5_000))?;
    ended(driver.ask("Node/NodeGetInfo").await, Code::Unimplemented, "")
}

async fn deadlines(driver: &Driver) -> Outcome {
    let told = driver.call("Controller/ControllerExpandVolume", Bytes::new(), Duration::from_secs(15)).await;
    let told = number(told.map_err(text)?);
    must(told > 13_000 && told <= 15_000, || format!("the driver was told {told} ms"))?;
    let before = driver.given_up().await?;
    for _ in 0..5 {
        let late = driver.call("Controller/ControllerUnpublishVolume", Bytes::new(), Duration::from_millis(500)).await;
        let code = late.as_ref().err().map(Status::code);
        let own = code == Some(Code::Cancelled); // by tonic's own timer, which may be faster
        ended(late, if own { Code::Cancelled } else { Code::DeadlineExceeded }, "")?;
    }
    driver.until_given_up(before + 5).await
}

async fn cancellations(driver: &Driver) -> Outcome {
    let before = driver.given_up().await?;
    let calls = join_all((0..3).map(|_| driver.ask("Controller/ControllerUnpublishVolume")));
    let is_over = tokio::time::timeout(Duration::from_millis(500), calls).await.is_ok();
    must(!is_over, || "they were answered".to_string())?;
    driver.until_given_up(before + 3).await
}

async fn end(driver: &Driver) -> Outcome {
    let other = driver.clone();
    let call = tokio::spawn(async move { other.ask("Controller/CreateSnapshot").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("end");
    call.await.unwrap().map_err(text)?;
    let began = Instant::now();
    loop {
        let answer = driver.ask("Identity/Probe").await;
        if answer.is_err() {
            return ended(answer, Code::Unavailable, "");
        }
        must(began.elapsed() < Duration::from_secs(10), || "it still answers".to_string())?;
    }
}

fn report(name: &str, outcome: Outcome) {
    match outcome {
        Ok(()) => println!("{name}\tok"),
        Err(why) => println!("{name}\tFAILED: {why}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let path = std::env::args().nth(1).expect("the path of a socket");
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(tokio::net::UnixStream::connect(path).await?)) }
    });
    let driver = Driver(Endpoint::from_static("http://localhost").connect_with_connector(connector).await.expect("the driver"));
    report("small", small(&driver).await);
    report("thousand", thousand(&driver).await);
    report("large", large(&driver).await);
    report("errors", errors(&driver).await);
    report("deadlines", deadlines(&driver).await);
    report("cancellations", cancellations(&driver).await);
    report("end", end(&driver).await);
}

//! The lower bound: a hyper server that reads each request and returns a fixed reply.
//!
//! It uses the same hyper, tokio, runtime and connection settings as the real server, so anything
//! above its cost is the real server's own. Each reply has its own port; nothing is parsed or
//! looked up.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

use crate::request::OwnedReply;

/// A reply in the form that the child process receives.
#[derive(Debug, Serialize, Deserialize)]
struct Canned {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// A running do-nothing server; killed when dropped.
pub struct DoNothing {
    child: Child,
    addresses: Vec<SocketAddr>,
}

impl DoNothing {
    /// Starts this program as a do-nothing server for `replies`, which must be UTF-8.
    pub fn start(scratch: &Path, replies: &[OwnedReply]) -> anyhow::Result<Self> {
        let canned: Vec<Canned> = replies.iter().map(can).collect();
        let file = scratch.join("replies.json");
        std::fs::write(&file, serde_json::to_vec(&canned)?)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("do-nothing")
            .arg(&file)
            // The child ends when the pipe closes, so that it never outlives this program.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the do-nothing server")?;
        let stdout = child.stdout.take().context("the child's output was not piped")?;
        let mut started = Self { child, addresses: Vec::new() };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let ports: Vec<u16> =
            serde_json::from_str(&line).context("the do-nothing server named no ports")?;
        started.addresses = ports.into_iter().map(loopback).collect();
        Ok(started)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the reply with that index is served.
    pub fn address(&self, reply: usize) -> SocketAddr {
        self.addresses[reply]
    }
}

impl Drop for DoNothing {
    fn drop(&mut self) {
        // Killing a child that has already ended may fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: serves every reply in `file` on a free port, prints the ports as one JSON
/// line, and runs until standard input ends.
pub fn serve(file: &Path) -> anyhow::Result<()> {
    let canned: Vec<Canned> = serde_json::from_slice(&std::fs::read(file)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut ports = Vec::new();
        for reply in canned {
            let listener = TcpListener::bind(loopback(0)).await?;
            ports.push(listener.local_addr()?.port());
            tokio::spawn(accept(listener, Arc::new(uncan(reply)?)));
        }
        announce(&ports)?;
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
            .await??;
        Ok(())
    })
}

async fn accept(listener: TcpListener, reply: Arc<Response<Bytes>>) {
    loop {
        // A failed accept (a client that left at once) does not affect other clients.
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(serve_connection(stream, Arc::clone(&reply)));
    }
}

async fn serve_connection(stream: TcpStream, reply: Arc<Response<Bytes>>) {
    // Both fail only if the client has left.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let reply = Arc::clone(&reply);
        async move {
            let _ = request.into_body().collect().await;
            let mut response = Response::new(Full::new(reply.body().clone()));
            *response.status_mut() = reply.status();
            *response.headers_mut() = reply.headers().clone();
            Ok::<_, Infallible>(response)
        }
    });
    let _ = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn can(reply: &OwnedReply) -> Canned {
    Canned {
        status: reply.status,
        headers: reply.headers.clone(),
        body: String::from_utf8_lossy(&reply.body).into_owned(),
    }
}

/// Headers that hyper adds are left out, as in the real server.
fn uncan(canned: Canned) -> anyhow::Result<Response<Bytes>> {
    let mut headers = HeaderMap::new();
    for (name, value) in canned.headers {
        let by_hyper = ["date", "content-length", "connection", "transfer-encoding"];
        if !by_hyper.contains(&name.to_ascii_lowercase().as_str()) {
            headers
                .append(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(&value)?);
        }
    }
    let mut response = Response::new(Bytes::from(canned.body));
    *response.status_mut() = StatusCode::from_u16(canned.status)?;
    *response.headers_mut() = headers;
    Ok(response)
}

#[expect(clippy::print_stdout, reason = "the parent reads this line")]
fn announce(ports: &[u16]) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(ports)?);
    Ok(())
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Connection;

    #[tokio::test]
    async fn it_answers_the_bytes_it_was_given() {
        let original = OwnedReply {
            status: 201,
            headers: vec![("etag".into(), "\"1\"".into()), ("Date".into(), "never".into())],
            body: b"{\"a\":1}".to_vec(),
        };
        let listener = TcpListener::bind(loopback(0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, Arc::new(uncan(can(&original)).unwrap())));
        let mut connection = Connection::open(address).await.unwrap();
        for _ in 0..2 {
            let request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc";
            let reply = connection.exchange(request).await.unwrap();
            assert_eq!((reply.status, reply.body), (201, &b"{\"a\":1}"[..]));
            assert_eq!(reply.header("etag"), Some("\"1\""));
            assert_ne!(reply.header("date"), Some("never"));
        }
    }
}

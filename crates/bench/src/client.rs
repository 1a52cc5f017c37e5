//! A lean HTTP/1.1 client: one connection, one request at a time, no copies it can avoid.
//!
//! The load driver shares two cores with the server it measures, so the client must cost little. It
//! trusts the server's framing as far as necessary and bounds its buffers.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Most bytes of a reply that are buffered; a feed page is at most 4 MB.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// A keep-alive connection, in clear text unless it is over another stream.
pub struct Connection<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
    is_closing: bool,
}

/// One reply; borrows the connection's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The status code.
    pub status: u16,
    /// The head, from the status line up to and including the empty line.
    pub head: &'a [u8],
    /// The body with any chunk framing removed.
    pub body: &'a [u8],
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Connection {
    /// Connects, without Nagle's delay.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Speaks over a stream that is open.
    pub fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::with_capacity(8 << 10), is_closing: false }
    }

    /// Sends a complete request and reads the whole reply. After an error the connection must not
    /// be used again.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply<'_>> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.reply().await
    }

    /// Whether the server announced that it closes the connection after its last reply.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Sends bytes that need not be a whole request.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads one reply.
    pub async fn reply(&mut self) -> io::Result<Reply<'_>> {
        self.buffer.clear();
        let head_len = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let status = status_of(&self.buffer[..head_len])?;
        self.is_closing = says_close(&self.buffer[..head_len]);
        let body_len = match framing_of(&self.buffer[..head_len], status)? {
            Framing::Length(length) => {
                while self.buffer.len() < head_len + length {
                    self.fill().await?;
                }
                length
            }
            Framing::Chunked => self.unchunk(head_len).await?,
        };
        let (head, rest) = self.buffer.split_at(head_len);
        Ok(Reply { status, head, body: &rest[..body_len] })
    }

    /// Waits until the server closes the connection; whatever it still sends is discarded.
    pub async fn closed(&mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    /// Half-closes the connection: the server learns that nothing more is sent, while replies are
    /// still read.
    pub async fn half_close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.buffer.len() > REPLY_BYTES_MAX {
            return Err(invalid("the reply is larger than this client accepts"));
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Joins the chunks that begin at `start` in place and returns the body's length.
    async fn unchunk(&mut self, start: usize) -> io::Result<usize> {
        let (mut from, mut to) = (start, start);
        loop {
            let line_end = loop {
                match find(&self.buffer[from..], b"\r\n") {
                    Some(at) => break from + at,
                    None => self.fill().await?,
                }
            };
            let size = chunk_size(&self.buffer[from..line_end])?;
            from = line_end + 2;
            while self.buffer.len() < from + size + 2 {
                self.fill().await?;
            }
            self.buffer.copy_within(from..from + size, to);
            to += size;
            from += size + 2;
            if size == 0 {
                return Ok(to - start);
            }
        }
    }
}

impl<'a> Reply<'a> {
    /// The first value of a header, found without regard to case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        headers(self.head).find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All headers in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        headers(self.head)
    }
}

fn headers(head: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    head.split(|&b| b == b'\n').skip(1).filter_map(|line| {
        let line = std::str::from_utf8(line).ok()?.trim_end();
        let (name, value) = line.split_once(':')?;
        Some((name, value.trim()))
    })
}

fn status_of(head: &[u8]) -> io::Result<u16> {
    head.get(9..12)
        .filter(|_| head.starts_with(b"HTTP/1."))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| invalid("not an HTTP/1 status line"))
}

fn says_close(head: &[u8]) -> bool {
    headers(head).any(|(name, value)| {
        name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
    })
}

fn framing_of(head: &[u8], status: u16) -> io::Result<Framing> {
    if status == 204 || status == 304 || status < 200 {
        return Ok(Framing::Length(0));
    }
    for (name, value) in headers(head) {
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().map_err(|_| invalid("bad content-length"))?;
            return Ok(Framing::Length(length));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Framing::Chunked);
        }
    }
    Err(invalid("the reply has neither length nor chunks"))
}

fn chunk_size(line: &[u8]) -> io::Result<usize> {
    let digits = line.split(|&b| b == b';').next().unwrap_or_default();
    let size = std::str::from_utf8(digits)
        .ok()
        .and_then(|text| usize::from_str_radix(text.trim(), 16).ok())
        .ok_or_else(|| invalid("bad chunk size"))?;
    if size > REPLY_BYTES_MAX {
        return Err(invalid("the chunk is larger than this client accepts"));
    }
    Ok(size)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn against(reply: &'static [u8]) -> io::Result<(u16, Vec<u8>, Option<String>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let mut request = [0u8; 5];
            stream.read_exact(&mut request).await?;
            // Single bytes exercise every position at which a read can end.
            for byte in reply {
                stream.write_all(&[*byte]).await?;
            }
            io::Result::Ok(())
        });
        let mut connection = Connection::open(address).await?;
        let outcome = connection.exchange(b"hello").await;
        server.await??;
        outcome.map(|r| (r.status, r.body.to_vec(), r.header("ETag").map(String::from)))
    }

    #[tokio::test]
    async fn a_reply_with_a_length_is_read_whole() {
        let (status, body, etag) =
            against(b"HTTP/1.1 201 Created\r\netag: \"x\"\r\nContent-Length: 3\r\n\r\nabc")
                .await
                .unwrap();
        assert_eq!((status, body.as_slice(), etag.as_deref()), (201, &b"abc"[..], Some("\"x\"")));
    }

    #[tokio::test]
    async fn chunks_are_joined() {
        let (status, body, _) = against(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
        )
        .await
        .unwrap();
        assert_eq!((status, body.as_slice()), (200, &b"abcde"[..]));
    }

    #[tokio::test]
    async fn no_content_has_no_body() {
        let (status, body, _) = against(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        assert_eq!((status, body.len()), (204, 0));
    }

    #[tokio::test]
    async fn a_torn_reply_is_an_error() {
        let error = against(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

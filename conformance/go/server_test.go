// Starts the real binary on free ports and stops it again.

package conformance

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 30 * time.Second

// A running server. HTTP and HTTPS share its ports.
type server struct {
	process   *exec.Cmd
	ended     chan error
	log       bytes.Buffer
	data      string
	Key       string            `json:"key"`
	Endpoints map[string]string `json:"endpoints"`
	// What vouches for the server's certificate.
	authority *x509.CertPool
}

// Starts a server with a data directory of its own.
func start(arguments ...string) (*server, error) {
	binary := os.Getenv("PLANISPHERE_BIN")
	data, err := os.MkdirTemp("", "planisphere-go-")
	if err != nil {
		return nil, err
	}
	s := &server{data: data, ended: make(chan error, 1), authority: x509.NewCertPool()}
	all := append([]string{"serve", "--data", data, "--ports", "auto", "--ready-json"}, arguments...)
	s.process = exec.Command(binary, all...)
	s.process.Stderr = &s.log
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	ready := make(chan []byte, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		lines.Scan()
		ready <- bytes.Clone(lines.Bytes())
		for lines.Scan() {
		}
		s.ended <- s.process.Wait()
	}()
	select {
	case line := <-ready:
		err = json.Unmarshal(line, s)
	case <-time.After(patience):
		err = fmt.Errorf("no line")
	}
	if err != nil {
		s.process.Process.Kill()
		return nil, fmt.Errorf("%s did not get ready: %w: %s", binary, err, s.log.String())
	}
	pem, err := exec.Command(binary, "cert", "--data", data).Output()
	if err != nil || !s.authority.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("`cert` printed no certificate: %v", err)
	}
	return s, nil
}

// Asks for a graceful shutdown; a server that ignores it fails the run.
func (s *server) stop() error {
	defer os.RemoveAll(s.data)
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("the server ended with %w: %s", err, s.log.String())
		}
		return nil
	case <-time.After(patience):
		s.process.Process.Kill()
		return fmt.Errorf("the server did not stop after SIGTERM")
	}
}

func (s *server) endpoint(listener, transport, host string) string {
	at, err := url.Parse(s.Endpoints[listener])
	if err != nil {
		panic(err)
	}
	at.Scheme, at.Host = transport, host+":"+at.Port()
	return at.String()
}

// A client that trusts the server's own authority, and nothing else.
func (s *server) trusting() *http.Client {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: s.authority},
		MaxIdleConnsPerHost: 64,
	}
	return &http.Client{Transport: transport, Timeout: 2 * patience}
}

// A server of one test.
func serverOf(t *testing.T, arguments ...string) *server {
	t.Helper()
	s, err := start(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The server that most tests share.
var shared *server

func TestMain(m *testing.M) {
	var err error
	if shared, err = start("--throttling", "off", "--readonly-key", readonlyKey); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// A request to the admin API.
func (s *server) admin(t *testing.T, path string, body, into any) {
	t.Helper()
	at := strings.TrimSuffix(s.Endpoints["admin"], "/") + "/_admin/v1" + path
	method, payload := http.MethodGet, []byte(nil)
	if body != nil {
		method, payload = http.MethodPost, encoded(t, body)
	}
	request, err := http.NewRequest(method, at, bytes.NewReader(payload))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		t.Fatalf("%s: %s", at, response.Status)
	}
	must(t, json.NewDecoder(response.Body).Decode(into))
}

// Starts the real binary on free ports and stops it again.

using System.Diagnostics;
using System.Security.Cryptography.X509Certificates;
using System.Text.Json;

namespace Planisphere.Conformance;

/// <summary>One running server. HTTP and HTTPS share its ports.</summary>
public sealed class Server : IDisposable
{
    static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);
    static readonly string Binary = Environment.GetEnvironmentVariable("PLANISPHERE_BIN")
        ?? throw new InvalidOperationException("set PLANISPHERE_BIN to a planisphere binary");

    readonly Process process;
    readonly DirectoryInfo data = Directory.CreateTempSubdirectory("planisphere-dotnet-");

    public string Key { get; }
    public JsonElement Endpoints { get; }
    /// <summary>What vouches for the server's certificate.</summary>
    public X509Certificate2 Authority { get; }

    public Server(params string[] arguments)
    {
        CopyAuthority();
        string[] all = ["serve", "--data", data.FullName, "--ports", "auto", "--ready-json", .. arguments];
        process = Start(all);
        // What it logs goes where ours goes; the pipe must not fill up.
        process.ErrorDataReceived += (_, line) => { if (line.Data is not null) Console.Error.WriteLine(line.Data); };
        process.BeginErrorReadLine();
        var ready = process.StandardOutput.ReadLineAsync();
        if (!ready.Wait(Patience) || ready.Result is null)
        {
            process.Kill();
            throw new InvalidOperationException($"{Binary} did not get ready");
        }
        var said = JsonDocument.Parse(ready.Result).RootElement;
        Key = said.GetProperty("key").GetString()!;
        Endpoints = said.GetProperty("endpoints");
        using var exported = Start(["cert", "--data", data.FullName]);
        Authority = X509Certificate2.CreateFromPem(exported.StandardOutput.ReadToEnd());
    }

    /// <summary>All servers have the authority that SSL_CERT_FILE names, if the script made one.</summary>
    void CopyAuthority()
    {
        if (Environment.GetEnvironmentVariable("PLANISPHERE_AUTHORITY") is not { Length: > 0 } authority) return;
        var copy = data.CreateSubdirectory("tls");
        foreach (var file in new DirectoryInfo(Path.Combine(authority, "tls")).GetFiles())
            file.CopyTo(Path.Combine(copy.FullName, file.Name));
    }

    static Process Start(string[] arguments) => Process.Start(
        new ProcessStartInfo(Binary, arguments) { RedirectStandardOutput = true, RedirectStandardError = true })!;

    public Uri Endpoint(string listener, string transport, string host = "127.0.0.1") =>
        new UriBuilder(Endpoints.GetProperty(listener).GetString()!) { Scheme = transport, Host = host }.Uri;

    /// <summary>Trusts the server's own authority, and nothing else.</summary>
    public HttpClientHandler Handler() => new()
    {
        ServerCertificateCustomValidationCallback = (_, certificate, _, _) =>
        {
            using var chain = new X509Chain();
            chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
            chain.ChainPolicy.CustomTrustStore.Add(Authority);
            chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
            return certificate is not null && chain.Build(certificate);
        },
    };

    /// <summary>Asks for a graceful shutdown; a server that ignores it fails the run.</summary>
    public void Dispose()
    {
        using (var kill = Process.Start("kill", ["-TERM", process.Id.ToString()])) kill.WaitForExit();
        bool ended = process.WaitForExit(Patience);
        if (!ended) process.Kill();
        data.Delete(recursive: true);
        if (!ended || process.ExitCode != 0) throw new InvalidOperationException("the server did not end as it was asked to");
    }
}

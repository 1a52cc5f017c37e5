// Runs the tests: every public method without arguments that returns a task, of every class that
// derives from Suite, once per transport. Prints a line per test.

using System.Diagnostics;
using System.Reflection;
using Planisphere.Conformance;

string? Argument(string name) =>
    Array.IndexOf(args, name) is var at and >= 0 && at + 1 < args.Length ? args[at + 1] : null;

var wanted = Argument("-k") ?? "";
var results = new List<string>();
var server = new Lazy<Server>(() => new Server("--throttling", "off"));
int failed = 0;

foreach (var type in typeof(Suite).Assembly.GetTypes().Where(type => type.IsSubclassOf(typeof(Suite)) && !type.IsAbstract).OrderBy(type => type.Name))
{
    foreach (var transport in ((Suite)Activator.CreateInstance(type)!).Transports)
    {
        var tests = type.GetMethods(BindingFlags.Public | BindingFlags.Instance)
            .Where(method => method.ReturnType == typeof(Task) && method is { IsVirtual: false } && method.GetParameters().Length == 0)
            .Where(method => Name(method).Contains(wanted, StringComparison.Ordinal))
            .ToList();
        if (tests.Count == 0) continue;
        string Name(MethodInfo method) => $"{type.Name}::{method.Name}[{transport}]";
        var suite = (Suite)Activator.CreateInstance(type)!;
        await suite.Open(server.Value, transport);
        foreach (var test in tests)
        {
            var watch = Stopwatch.StartNew();
            Exception? error = null;
            try
            {
                await ((Task)test.Invoke(suite, null)!).WaitAsync(suite.Patience);
            }
            catch (Exception caught)
            {
                error = caught is TargetInvocationException { InnerException: { } inner } ? inner : caught;
                failed++;
            }
            var outcome = error is null ? "pass" : "fail";
            results.Add($"{outcome}\t{Name(test)}");
            Console.WriteLine($"{outcome} {Name(test)} ({watch.ElapsedMilliseconds} ms)");
            if (error is not null) Console.WriteLine(error);
        }
        await suite.Close();
    }
}

if (server.IsValueCreated) server.Value.Dispose();
if (Argument("--results") is { } path) await File.WriteAllLinesAsync(path, results);
return failed == 0 ? 0 : 1;

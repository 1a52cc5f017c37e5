// A reporter: a line per test, with what became of it and its name.

export default async function* results(source) {
  const path = [];
  for await (const { type, data } of source) {
    if (type === "test:start") {
      path.length = data.nesting;
      path.push(data.name);
    }
    if ((type === "test:pass" || type === "test:fail") && data.details?.type !== "suite") {
      const outcome = data.skip !== undefined ? "skip" : type === "test:pass" ? "pass" : "fail";
      yield `${outcome}\t${[...path.slice(0, data.nesting), data.name].join(" > ")}\n`;
    }
  }
}

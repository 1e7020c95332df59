// Runs beside a user's tool, in its isolate: hands it the calls of blocks, one after another, and the answers back.

const { url, env } = await __tool.start();
Object.defineProperty(globalThis, "env", { value: Object.freeze(env), enumerable: true });

// Where in tools/ an error comes from.
function place(error) {
  const frames = String(error?.stack ?? "").split("\n").filter((line) => line.includes("file:///tools/"));
  return frames.slice(0, 3).map((line) => `\n    ${line.trim().replaceAll("file:///tools/", "tools/")}`).join("");
}

function describe(error) {
  const isError = error instanceof Error;
  return {
    name: isError ? String(error.name) : "Error",
    message: (isError ? String(error.message) : String(error)) + place(error),
    code: isError && typeof error.code === "string" ? error.code : null,
  };
}

let tool;
try {
  tool = await import(url);
} catch (error) {
  throw new Error(`the tool could not be loaded: ${error?.message ?? error}${place(error)}`);
}

for (;;) {
  const { id, member, args } = await __tool.next();
  void (async () => {
    let value;
    try {
      value = await tool[member](...args);
    } catch (error) {
      return __tool.fail(id, describe(error));
    }
    try {
      await __tool.answer(id, value);
    } catch (error) {
      await __tool.fail(id, { name: "TypeError", message: `its result cannot be passed on: ${error.message}`, code: null });
    }
  })();
}

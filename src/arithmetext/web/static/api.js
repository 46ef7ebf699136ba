// Read JSON and streams of JSON lines from this server.

class ApiError extends Error {}

/** The JSON at an address; an ApiError with the server's sentence if it refuses. */
export async function getJson(address, { signal } = {}) {
  const response = await reach(address, signal);
  return response.json();
}

/**
 * The JSON lines of a long answer, as they come. A line that holds an error is thrown. Abort the
 * signal to stop the work on the server too.
 */
export async function* getLines(address, { signal } = {}) {
  const response = await reach(address, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        signal?.throwIfAborted(); // what came before the abort is old now
        const parsed = JSON.parse(line);
        if ("error" in parsed) throw new ApiError(parsed.error);
        yield parsed;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** An address with parameters; undefined ones are left out. */
export function address(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** A sentence for people about anything that was thrown; null if they stopped it themselves. */
export function sentence(error) {
  if (error.name === "AbortError") return null;
  if (error instanceof ApiError) return error.message;
  console.error(error);
  if (error instanceof TypeError) return "The explorer does not answer. Is `nt explore` running?";
  return "Something failed on this page; the browser's console shows what.";
}

async function reach(address, signal) {
  const response = await fetch(address, { signal });
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new ApiError(answer.error ?? `The explorer answered with code ${response.status}.`);
}

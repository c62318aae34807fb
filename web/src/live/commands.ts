import { authorization } from "./session";

export type Command = "pause" | "resume" | "checkpoint" | "stop";

// What went wrong, as a sentence; null if the server will do it.
export async function send(command: Command): Promise<string | null> {
  let answer: Response;
  try {
    answer = await fetch(`/api/${command}`, { method: "POST", headers: authorization() });
  } catch {
    return "The server cannot be reached.";
  }
  if (answer.ok) return null;
  if (answer.status === 401) return "Only those with the token may do that: open the address that the coordinator has printed.";
  return (await errorIn(answer)) ?? `The server answered with ${answer.status}.`;
}

async function errorIn(answer: Response): Promise<string | null> {
  try {
    const body: unknown = await answer.json();
    const error = (body as { error?: unknown } | null)?.error;
    return typeof error === "string" && error ? error : null;
  } catch {
    return null; // not JSON: the status says what there is to say
  }
}

// The address that the coordinator prints ends in #token=…: whoever has it may pause and stop the run. It is shown to the server once,
// for a cookie, and then taken out of the address, so that it is not copied along with it.

export type Outcome = "none" | "accepted" | "refused";

export function tokenIn(fragment: string): string | null {
  return /^#token=([0-9a-zA-Z_-]+)(?:&|$)/.exec(fragment)?.[1] ?? null;
}

export async function showToken(): Promise<Outcome> {
  const token = tokenIn(location.hash);
  if (!token) return "none";
  let accepted = false;
  try {
    const answer = await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    accepted = answer.ok;
  } catch {
    return "none"; // nobody there: the connection says so, and the token stays for another try
  }
  history.replaceState(null, "", location.pathname + location.search);
  return accepted ? "accepted" : "refused";
}

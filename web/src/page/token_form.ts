import { tokenFrom } from "../live/session";
import { html, setHidden, setText } from "./dom";

// Asks for the token, where nothing is shown without.
export class TokenForm {
  readonly root = html("form", { class: "token-form", "data-testid": "token-form", hidden: true });
  private readonly input = html("input", { id: "token", autocomplete: "off", spellcheck: "false", "data-testid": "token" });
  private readonly note = html("p", { class: "note", role: "alert", "data-testid": "token-note" });

  constructor(enter: (token: string) => void) {
    this.root.append(
      html("p", {}, "Open the address that was printed when the run began, or enter its token."),
      html("label", { for: "token" }, "Token"),
      this.input,
      html("button", {}, "Enter"),
      this.note,
    );
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      const token = tokenFrom(this.input.value);
      if (token) enter(token);
      else this.ask("That is no token.");
    });
  }

  ask(note: string): void {
    const wasHidden = this.root.hidden;
    setHidden(this.root, false);
    setText(this.note, note);
    if (wasHidden) this.input.focus();
  }

  hide(): void {
    setHidden(this.root, true);
  }
}

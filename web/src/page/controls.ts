import { send, type Command } from "../live/commands";
import type { Phase } from "../model/api";
import { changesOf, type Model } from "../model/store";
import { html, setHidden } from "./dom";
import type { Notices } from "./notices";

const kRunning: Phase[] = ["gathering", "training", "pausing", "paused"];

const kTold: Record<Command, string> = {
  pause: "The run will pause.",
  resume: "The run goes on.",
  checkpoint: "A checkpoint will be saved.",
  stop: "The run will stop.",
};

// Pause, resume, checkpoint, stop: for those who have shown the token.
export class Controls {
  readonly root = html("div", { class: "controls", role: "group", "aria-label": "Control the run", hidden: true });
  private readonly pause = this.button("pause", "Pause");
  private readonly resume = this.button("resume", "Resume");
  private readonly checkpoint = this.button("checkpoint", "Checkpoint now");
  private readonly stop = this.button("stop", "Stop");
  private readonly changed = changesOf("run");

  constructor(private readonly notices: Notices) {
    const question = this.question();
    this.pause.addEventListener("click", () => this.order("pause"));
    this.resume.addEventListener("click", () => this.order("resume"));
    this.checkpoint.addEventListener("click", () => this.order("checkpoint"));
    this.stop.addEventListener("click", () => question.showModal());
    this.root.append(this.pause, this.resume, this.checkpoint, this.stop, question);
  }

  render(model: Model): void {
    if (!this.changed(model) || !model.run) return;
    const { phase, may_control } = model.run;
    setHidden(this.root, !may_control);
    this.offerPauseOrResume(phase === "pausing" || phase === "paused");
    this.pause.disabled = phase !== "training";
    this.checkpoint.disabled = phase !== "training" && phase !== "pausing" && phase !== "paused";
    this.stop.disabled = !kRunning.includes(phase);
  }

  // They take each other's place, and the focus with it.
  private offerPauseOrResume(isPaused: boolean): void {
    const [shown, other] = isPaused ? [this.resume, this.pause] : [this.pause, this.resume];
    const hadFocus = document.activeElement === other;
    setHidden(shown, false);
    setHidden(other, true);
    if (hadFocus) shown.focus();
  }

  private async order(command: Command): Promise<void> {
    const error = await send(command);
    if (error) this.notices.error(error);
    else this.notices.tell(kTold[command]);
  }

  private question(): HTMLDialogElement {
    const no = html("button", { type: "button" }, "Go on training");
    const yes = html("button", { type: "button", class: "danger", "data-testid": "stop-confirm" }, "Stop the run");
    const dialog = html(
      "dialog",
      { class: "question", "aria-labelledby": "stop-title", "data-testid": "stop-dialog" },
      html("h2", { id: "stop-title" }, "Stop the run?"),
      html("p", {}, "It ends for every peer of the swarm, before its last step."),
      html("div", { class: "buttons" }, no, yes),
    );
    no.addEventListener("click", () => dialog.close());
    yes.addEventListener("click", () => {
      dialog.close();
      void this.order("stop");
    });
    return dialog;
  }

  private button(id: string, text: string): HTMLButtonElement {
    return html("button", { type: "button", "data-testid": id, class: id === "stop" ? "danger" : "" }, text);
  }
}

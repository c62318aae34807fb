// The coordinator's clock, between the messages that tell it. A message that came quickly is nearest to the truth, so the estimate jumps
// ahead at once, but goes back only slowly: otherwise the timeline would tremble with every delay of the network.
export class SwarmClock {
  private offset: number | null = null;
  private heardAt = 0;

  // `at`: seconds on the clock of this page.
  hear(seconds: number, at: number): void {
    const offset = seconds - at;
    const jumped = this.offset === null || Math.abs(offset - this.offset) > kJump;
    if (jumped || offset > this.offset!) this.offset = offset;
    else this.offset! += (offset - this.offset!) * 0.05;
    this.heardAt = at;
  }

  // Does not run on for long when nothing is heard.
  now(at: number): number {
    return (this.offset ?? 0) + Math.min(at, this.heardAt + kPatience);
  }
}

const kJump = 5;
const kPatience = 2.5;

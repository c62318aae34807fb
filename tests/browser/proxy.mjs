import { createServer, connect } from "node:net";
import { once } from "node:events";

// Stands between a browser and a server on this computer, and plays the network that fails.
export class Proxy {
  #sockets = new Set();
  #isCut = false;
  #server;

  // To a port of this computer.
  static async to(port) {
    const proxy = new Proxy();
    proxy.#server = createServer((near) => proxy.#join(near, port));
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get port() {
    return this.#server.address().port;
  }

  // Ends all connections; new ones end at once.
  cut() {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend() {
    this.#isCut = false;
  }

  close() {
    this.cut();
    this.#server.close();
  }

  #join(near, port) {
    if (this.#isCut) {
      near.destroy();
      return;
    }
    const far = connect(port, "127.0.0.1");
    for (const [socket, other] of [[near, far], [far, near]]) {
      this.#sockets.add(socket);
      socket.on("error", () => {}); // "close" follows
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }
}

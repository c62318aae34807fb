import { defineConfig } from "vitest/config";

// The program has these files compiled in under their names, and serves them with a policy that forbids everything inline: so names are
// fixed, there is one script and one style sheet, and nothing becomes a data address.
export default defineConfig({
  build: {
    target: "es2022",
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "assets/app.js",
        assetFileNames: "assets/app[extname]",
        inlineDynamicImports: true,
      },
    },
  },
  test: { include: ["src/**/*_test.ts"] },
});

// SPDX-License-Identifier: PostgreSQL
import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

// @grafana/scenes asks @grafana/plugin-compat for data sources, and that asks for what this @grafana/runtime does not have.
const compat = fileURLToPath(new URL("src/compat.js", import.meta.url));

export default defineConfig({
  base: "./",
  plugins: [react()],
  resolve: { alias: { "@grafana/plugin-compat/datasources": compat }, dedupe: ["react", "react-dom"] },
  build: { outDir: process.env.RENDER_OUT ?? "dist", emptyOutDir: true, minify: false, chunkSizeWarningLimit: 100000 },
});

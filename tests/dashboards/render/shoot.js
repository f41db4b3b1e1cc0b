// SPDX-License-Identifier: PostgreSQL
// Serves the built page, draws dashboards in a real browser, and tells what it saw.
//
// Standard input: {dist, dashboards, prometheus, chromium, shots: [{dashboard, theme, width, from, to, choices, picture}]}.
// Standard output: for each shot its panels with their texts, the marks, what Prometheus refused, and what went wrong.
import { createReadStream, readFileSync } from "node:fs";
import { request, createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";

const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".svg": "image/svg+xml" };
const DEADLINE_MS = 300_000; // of a machine that has other work
const SETTLED_MS = 1_000;
const job = JSON.parse(readFileSync(0, "utf8"));
const upstream = new URL(job.prometheus);

const serve = (folder, path, answer) => {
  const file = createReadStream(join(folder, normalize(path)));
  file.on("error", () => answer.writeHead(404).end());
  file.once("open", () => {
    answer.writeHead(200, { "Content-Type": KINDS[extname(path)] ?? "application/octet-stream" });
    file.pipe(answer);
  });
};

const server = createServer((asked, answer) => {
  const { pathname } = new URL(asked.url, "http://x");
  if (pathname.startsWith("/api/")) {
    const to = { host: upstream.hostname, port: upstream.port, path: asked.url, method: asked.method, headers: asked.headers };
    asked.pipe(request(to, (back) => {
      answer.writeHead(back.statusCode, back.headers);
      back.pipe(answer);
    }).on("error", () => answer.writeHead(502).end()));
  } else if (pathname.startsWith("/dashboards/")) serve(job.dashboards, pathname.slice("/dashboards".length), answer);
  else serve(job.dist, pathname === "/" ? "/index.html" : pathname, answer);
});

// Every question is answered, and nothing has changed on the page for a while.
const settled = (quiet) => {
  const { waiting } = window.drawn ?? {};
  const now = performance.now();
  const state = `${waiting?.asked} ${waiting?.answered} ${document.body.innerText.length} ${document.querySelectorAll("*").length}`;
  if (!waiting || waiting.asked !== waiting.answered || state !== window.lastState) {
    window.lastState = state;
    window.since = now;
    return false;
  }
  return waiting.asked > 10 && now - window.since > quiet;
};

const seen = () => ({
  panels: [...document.querySelectorAll("section[data-testid*='Panel header']")].map((panel) => ({
    title: panel.querySelector("h2")?.innerText ?? "",
    text: panel.innerText,
    cut: Math.max(0, ...[...panel.querySelectorAll("[role=grid]")].map((grid) => grid.scrollWidth - grid.clientWidth)),
  })),
  marks: window.drawn.marks,
  refused: window.drawn.waiting.refused,
});

const shoot = async (browser, base, shot) => {
  const page = await browser.newPage({ viewport: { width: shot.width, height: shot.height ?? 1000 } });
  page.setDefaultTimeout(DEADLINE_MS);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (asked) => {
    if (!asked.url().startsWith(base) && !/^(data|blob):/.test(asked.url())) problems.push(`asked for ${asked.url()}`);
  });
  const query = new URLSearchParams({ ...shot, choices: JSON.stringify(shot.choices) });
  await page.goto(`${base}/?${query}`, { timeout: DEADLINE_MS });
  await page.waitForFunction(settled, SETTLED_MS, { timeout: DEADLINE_MS, polling: 100 });
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width: shot.width, height });
  await page.evaluate(() => (window.lastState = "of another size"));
  await page.waitForFunction(settled, SETTLED_MS, { timeout: DEADLINE_MS, polling: 100 });
  if (shot.picture) await page.screenshot({ path: shot.picture, clip: shot.clip ?? { x: 0, y: 0, width: shot.width, height } });
  const found = await page.evaluate(seen);
  await page.close();
  return { ...found, problems };
};

await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: job.chromium, args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"] });
try {
  const found = [];
  for (const shot of job.shots) found.push(await shoot(browser, base, shot));
  console.log(JSON.stringify(found));
} finally {
  await browser.close();
  server.close();
}

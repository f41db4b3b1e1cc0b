// SPDX-License-Identifier: PostgreSQL
// The vertical lines of the annotations, drawn into each time series.
const SHOWN = [];

const draw = (plot) => {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const { time, colour } of SHOWN) {
    const x = Math.round(plot.valToPos(time, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash([4, 4]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x - 5, bbox.top + bbox.height + 7);
    ctx.lineTo(x + 5, bbox.top + bbox.height + 7);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.fill();
  }
  ctx.restore();
};

export const marks = { draw, show: (events) => SHOWN.splice(0, SHOWN.length, ...events), all: SHOWN };

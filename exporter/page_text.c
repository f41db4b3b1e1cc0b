/* SPDX-License-Identifier: PostgreSQL */
/* Words and looks of the page. */
#include "exporter/page_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "exporter/emit.h"

void page_escape(FILE *out, const char *text)
{
    size_t size = text ? strlen(text) : 0;
    CLEANUP(free_charp) char *valid = xmalloc(3 * size + 1);
    (void)text_utf8_sanitize(text ? text : "", size, valid);
    text_html_escape(out, valid);
}

/* Two neighbouring units, the smaller one only if it is not 0. */
static void two_units(FILE *out, int64_t value, int64_t per_large, const char *large,
                      const char *small)
{
    (void)fprintf(out, "%" PRId64 " %s", value / per_large, large);
    if (value % per_large)
        (void)fprintf(out, " %" PRId64 " %s", value % per_large, small);
}

void page_duration(FILE *out, int64_t us)
{
    if (us < 0)
        (void)fputs("unknown", out);
    else if (us < SECOND_US)
        (void)fprintf(out, "%" PRId64 " ms", us / 1000);
    else if (us < MINUTE_US)
        (void)fprintf(out, "%" PRId64 " s", us / SECOND_US);
    else if (us < HOUR_US)
        two_units(out, us / SECOND_US, 60, "min", "s");
    else if (us < DAY_US)
        two_units(out, us / MINUTE_US, 60, "h", "min");
    else
        two_units(out, us / HOUR_US, 24, "d", "h");
}

static char *duration_text(int64_t us)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    page_duration(out, us);
    (void)fclose(out);
    return text;
}

void page_bounds(FILE *out, int64_t least_us, int64_t more_us)
{
    int64_t most_us = 0;
    if (least_us < 0 || more_us < 0 || __builtin_add_overflow(least_us, more_us, &most_us)) {
        (void)fputs(least_us < 0 ? "" : "at least ", out);
        page_duration(out, least_us);
        return;
    }
    CLEANUP(free_charp) char *least = duration_text(least_us);
    CLEANUP(free_charp) char *most = duration_text(most_us);
    if (strcmp(least, most) == 0)
        (void)fputs(least, out);
    else
        (void)fprintf(out, "<span class=k>at least %s,</span> <span class=k>at most %s</span>",
                      least, most);
}

void page_integer(FILE *out, int64_t value)
{
    char digits[EMIT_NUMBER_SIZE];
    size_t n = emit_integer(digits, value);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
            (void)fputs("&#8239;", out); /* a narrow blank that does not break */
        (void)putc(digits[i], out);
    }
}

void page_number(FILE *out, double value)
{
    static const double exact_limit = 9007199254740992.0; /* 2^53 */
    if (fabs(value) < exact_limit && value == floor(value)) {
        page_integer(out, (int64_t)value);
        return;
    }
    char text[EMIT_NUMBER_SIZE];
    size_t size = emit_real(text, value);
    (void)fwrite(text, 1, size, out);
}

const char page_style[] =
    ":root{color-scheme:light dark;--bg:#fbfbfa;--fg:#1d2327;--dim:#68737c;--line:#e2e4e3;"
    "--card:#fff;--link:#1f5f99;--good:#237a4b;--warn:#9a6400;--bad:#b3261e;--off:#78828a}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181b;--fg:#e3e6e8;--dim:#929ca4;"
    "--line:#2b3237;--card:#1a1f23;--link:#7db6ea;--good:#62c08d;--warn:#dda94b;--bad:#ee8178;"
    "--off:#8c969e}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,-apple-system,"
    "\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;font-variant-numeric:tabular-nums}"
    "header,main{max-width:1720px;margin:0 auto;padding:0 24px}"
    "header{display:flex;flex-wrap:wrap;gap:4px 20px;align-items:baseline;padding-top:22px}"
    "h1{font-size:20px;margin:0;font-weight:650}"
    "h2{font-size:13px;margin:28px 0 8px;font-weight:600;color:var(--dim);"
    "letter-spacing:.04em;text-transform:uppercase}"
    "nav{margin-left:auto;display:flex;gap:16px}"
    "a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}"
    ".sum{color:var(--dim);margin:6px 0 0}.sum b{color:var(--fg);font-weight:600}"
    ".sum b.warn{color:var(--warn)}"
    ".box{background:var(--card);border:1px solid var(--line);border-radius:8px;overflow-x:auto}"
    "table{border-collapse:collapse;width:100%}"
    "th{font-weight:500;color:var(--dim);font-size:13px;white-space:nowrap}"
    "th,td{text-align:left;vertical-align:top;padding:9px 14px;border-top:1px solid var(--line)}"
    "tr:first-child th{border-top:0}"
    "td{overflow-wrap:anywhere;min-width:7em}"
    "td:first-child{min-width:15em}.k{white-space:nowrap}"
    "th.n,td.n{text-align:right}td.n{white-space:nowrap;overflow-wrap:normal;min-width:0}"
    ".name{font-weight:600}small{display:block;color:var(--dim);font-size:13px}"
    ".dim,.unknown{color:var(--dim)}.unknown{font-style:italic}"
    ".state{white-space:nowrap;font-weight:600}"
    ".state:before{content:\"\";display:inline-block;width:8px;height:8px;border-radius:50%;"
    "background:currentColor;margin-right:7px}"
    ".led,.up{color:var(--good)}.yielding,.warn{color:var(--warn)}"
    ".vacant,.contested,.stalled,.down{color:var(--bad)}.state.unknown{color:var(--off)}"
    "progress{display:block;width:100%;min-width:90px;max-width:180px;height:4px;margin:5px 0 3px;"
    "border:0;border-radius:2px;background:var(--line);appearance:none;-webkit-appearance:none}"
    "progress::-webkit-progress-bar{background:var(--line);border-radius:2px}"
    "progress::-webkit-progress-value{background:var(--good);border-radius:2px}"
    "progress::-moz-progress-bar{background:var(--good);border-radius:2px}"
    "footer{color:var(--dim);font-size:13px;padding:16px 0 32px}"
    "@media(max-width:900px){header,main{padding-left:14px;padding-right:14px}"
    "nav{margin-left:0;width:100%}.box{background:none;border:0;border-radius:0;overflow:visible}"
    "thead{display:none}table,tbody,tr,td{display:block}"
    "tr{background:var(--card);border:1px solid var(--line);border-radius:8px;margin:0 0 10px;"
    "padding:6px 0}"
    "td,td.n{display:flex;gap:12px;border:0;padding:4px 14px;text-align:left;white-space:normal}"
    "td:before{content:attr(data-label);flex:0 0 92px;color:var(--dim);font-size:13px;"
    "line-height:22px}td>div{min-width:0;flex:1}td:first-child:before,td:has(.na:only-child)"
    "{display:none}}";

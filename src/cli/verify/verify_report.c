/* src/cli/verify/verify_report.c */
#include "cli/verify/verify_report.h"

#include <inttypes.h>
#include <string.h>

#include "cli/out/out_json.h"

#define HELD_UP_US (SECOND_US / 2) /* shorter ones are not reported */

static double ms(int64_t us)
{
    return (double)us / 1000;
}

/* ---- violations ---- */

static void keep(struct verify_kept *kept, const struct judge_violation *violation, const char *range)
{
    kept->property = violation->property;
    kept->watcher = violation->watcher;
    kept->rev = violation->rev;
    snprintf(kept->range, sizeof(kept->range), "%s", range);
    kept->key_len = violation->key.len < VERIFY_KEY_KEPT ? violation->key.len : VERIFY_KEY_KEPT;
    if (kept->key_len > 0)
        memcpy(kept->key, violation->key.data, kept->key_len);
    snprintf(kept->expected, sizeof(kept->expected), "%s", violation->expected);
    snprintf(kept->came, sizeof(kept->came), "%s", violation->came);
}

static void clear_line(struct verify_report *report)
{
    if (report->line_open)
        fputs("\r\033[K", report->out);
    report->line_open = false;
}

static void write_violation(struct verify_report *report, const struct verify_kept *kept)
{
    char key[4 * VERIFY_KEY_KEPT + 16];
    clear_line(report);
    judge_bytes_text((struct belfry_bytes){kept->key, kept->key_len}, key, sizeof(key));
    fprintf(report->out, "VIOLATION %s: %s\n", judge_property_word(kept->property),
            judge_property_sentence(kept->property));
    fprintf(report->out, "  watcher   %u: %s\n", kept->watcher, kept->range);
    fprintf(report->out, "  revision  %" PRId64 "\n", kept->rev);
    if (kept->key_len > 0)
        fprintf(report->out, "  key       %s\n", key);
    fprintf(report->out, "  expected  %s\n  came      %s\n", kept->expected, kept->came);
}

void verify_report_violation(struct verify_report *report, const struct judge_violation *violation, const char *range)
{
    report->counts[violation->property]++;
    report->n_violations++;
    if (report->n_kept == VERIFY_KEPT)
        return;
    struct verify_kept *kept = &report->kept[report->n_kept++];
    keep(kept, violation, range);
    if (report->form == FORM_TABLE)
        write_violation(report, kept);
}

/* ---- for people ---- */

static void write_time(FILE *out, int64_t us)
{
    int64_t s = us / SECOND_US;
    fprintf(out, "%02" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60, s % 60);
}

void verify_report_line(struct verify_report *report, const struct verify_standing *standing)
{
    const struct verify_numbers *numbers = standing->numbers;
    FILE *out = report->out;
    if (report->form != FORM_TABLE)
        return;
    clear_line(report);
    write_time(out, standing->elapsed_us);
    fprintf(out, "  rev %" PRId64 "  %" PRIu64 " events checked  lag %.2f ms p50, %.2f ms p99", standing->rev,
            numbers->n_events, ms(verify_lag_at(&numbers->lag, 0.5)), ms(verify_lag_at(&numbers->lag, 0.99)));
    fprintf(out, "  %zu of %zu watchers caught up  %" PRIu64 " violations", standing->n_caught_up, standing->n_watchers,
            report->n_violations);
    if (standing->cut)
        fputs("  the tier cannot be reached", out);
    if (!report->terminal)
        fputc('\n', out);
    report->line_open = report->terminal;
}

static void write_lag(FILE *out, const struct verify_lag *lag)
{
    if (lag->n == 0) {
        fputs("  lag               not measured: nothing was written\n", out);
        return;
    }
    fprintf(out, "  lag               p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", ms(verify_lag_at(lag, 0.5)),
            ms(verify_lag_at(lag, 0.99)), ms(lag->max_us));
    if (lag->n_early > 0)
        fprintf(out,
                "                    %" PRIu64 " of %" PRIu64 " events came before the reference's and count as 0\n",
                lag->n_early, lag->n);
}

static void write_oddities(FILE *out, const struct verify_standing *standing)
{
    const struct verify_numbers *numbers = standing->numbers;
    if (numbers->n_prev_absent > 0)
        fprintf(out,
                "  prev_kv missing   %" PRIu64
                " times where the reference has it; it is a violation if no compaction explains it\n",
                numbers->n_prev_absent);
    if (standing->n_compacted > 0)
        fprintf(out, "  compacted         reported %" PRIu64 " times, and the reference agrees\n",
                standing->n_compacted);
    if (standing->n_unclear > 0)
        fprintf(out, "  compacted         reported %" PRIu64 " times more, when the reference could not be asked\n",
                standing->n_unclear);
    if (numbers->n_not_judged > 0)
        fprintf(out,
                "  not judged        %" PRIu64
                " events: they came after the reference's had left the window, or are older\n",
                numbers->n_not_judged);
    if (numbers->n_gaps > 0)
        fprintf(out, "  gaps              %" PRIu64 " times the reference itself lost history; not judged there\n",
                numbers->n_gaps);
    if (numbers->cut_us > 0)
        fprintf(out, "  unreachable       the tier, for up to %.1f s\n", (double)numbers->cut_us / SECOND_US);
    if (standing->silent_us > VERIFY_SILENT_US)
        fprintf(out, "  no answer         from the reference, for up to %.1f s: lateness during that is not reported\n",
                (double)standing->silent_us / SECOND_US);
    if (standing->late)
        fprintf(out,
                "  reference late    its own watch came no further than revision %" PRId64 "; not judged after it\n",
                standing->told_rev);
    if (standing->held_up_us > HELD_UP_US)
        fprintf(out, "  held up           belfryctl itself, for up to %.1f s: the tier's lag may be less than shown\n",
                (double)standing->held_up_us / SECOND_US);
    if (standing->n_rewinds > 0)
        fprintf(out, "  rewound           %" PRIu64 " times the cluster was restored from a backup\n",
                standing->n_rewinds);
    if (standing->writes)
        fprintf(out, "  writes            %" PRIu64 " done, %" PRIu64 " failed\n", standing->n_written,
                standing->n_write_failures);
}

static void write_verdict(const struct verify_report *report, const struct verify_standing *standing)
{
    FILE *out = report->out;
    if (report->n_violations == 0)
        fputs(standing->numbers->n_events > 0
                  ? "  violations        none\n"
                  : "  violations        none, but nothing was written either: see --write and --history\n",
              out);
    else
        fprintf(out, "  violations        %" PRIu64 "%s\n", report->n_violations,
                report->n_violations > report->n_kept ? ", of which the first are above" : "");
    for (enum judge_property p = 0; p < JUDGE_N_PROPERTIES; p++)
        if (report->counts[p] > 0)
            fprintf(out, "    %-15s %" PRIu64 ": %s\n", judge_property_word(p), report->counts[p],
                    judge_property_sentence(p));
}

static void write_table(struct verify_report *report, const struct verify_standing *standing)
{
    const struct verify_numbers *numbers = standing->numbers;
    FILE *out = report->out;
    clear_line(report);
    fputs("verified ", out);
    write_time(out, standing->elapsed_us);
    fprintf(out, " of %s, %s %" PRId64 " to %" PRId64 "\n", standing->range,
            standing->is_kube ? "versions" : "revisions", standing->first_rev, standing->rev);
    fprintf(out, "  reference         %" PRIu64 " %s\n", numbers->n_revisions,
            standing->is_kube ? "changes" : "revisions");
    if (standing->is_kube)
        fprintf(out, "  lists             %zu objects are the same on both sides\n", standing->n_listed);
    fprintf(out, "  events checked    %" PRIu64 ", %" PRIu64 " with prev_kv; progress %" PRIu64 " times\n",
            numbers->n_events, numbers->n_prev_same, numbers->n_progress);
    fprintf(out, "  watchers          %zu, started %" PRIu64 " times, %" PRIu64 " of them at old revisions\n",
            standing->n_watchers, standing->n_starts, standing->n_old_starts);
    write_lag(out, &numbers->lag);
    fprintf(out, "  connections lost  reference %" PRIu64 ", tier %" PRIu64 "\n", standing->n_reference_losses,
            standing->n_tier_losses);
    write_oddities(out, standing);
    write_verdict(report, standing);
}

/* ---- JSON ---- */

static void write_text(FILE *out, const char *name, const char *text)
{
    json_member(out, name, (struct belfry_bytes){text, strlen(text)});
}

static void write_counts(FILE *out, const struct verify_report *report)
{
    fprintf(out, "{\"violations\":%" PRIu64 ",\"by_property\":{", report->n_violations);
    for (enum judge_property p = 0; p < JUDGE_N_PROPERTIES; p++)
        fprintf(out, "%s\"%s\":%" PRIu64, p > 0 ? "," : "", judge_property_word(p), report->counts[p]);
    fputs("},\"first\":[", out);
    for (size_t i = 0; i < report->n_kept; i++) {
        const struct verify_kept *kept = &report->kept[i];
        fprintf(out, "%s{\"property\":\"%s\",\"watcher\":%u,\"rev\":%" PRId64, i > 0 ? "," : "",
                judge_property_word(kept->property), kept->watcher, kept->rev);
        write_text(out, "range", kept->range);
        json_member(out, "key", (struct belfry_bytes){kept->key, kept->key_len});
        write_text(out, "expected", kept->expected);
        write_text(out, "came", kept->came);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_json(const struct verify_report *report, const struct verify_standing *standing)
{
    const struct verify_numbers *n = standing->numbers;
    FILE *out = report->out;
    write_counts(out, report);
    write_text(out, "range", standing->range);
    fprintf(out, ",\"seconds\":%.3f,\"first_rev\":%" PRId64 ",\"rev\":%" PRId64,
            (double)standing->elapsed_us / SECOND_US, standing->first_rev, standing->rev);
    fprintf(out,
            ",\"revisions\":%" PRIu64 ",\"events\":%" PRIu64 ",\"prev_kv\":%" PRIu64 ",\"prev_kv_missing\":%" PRIu64,
            n->n_revisions, n->n_events, n->n_prev_same, n->n_prev_absent);
    fprintf(out, ",\"progress\":%" PRIu64 ",\"not_judged\":%" PRIu64 ",\"gaps\":%" PRIu64 ",\"rewinds\":%" PRIu64,
            n->n_progress, n->n_not_judged, n->n_gaps, standing->n_rewinds);
    fprintf(out,
            ",\"watchers\":%zu,\"starts\":%" PRIu64 ",\"old_starts\":%" PRIu64 ",\"compacted\":%" PRIu64
            ",\"compacted_unclear\":%" PRIu64,
            standing->n_watchers, standing->n_starts, standing->n_old_starts, standing->n_compacted,
            standing->n_unclear);
    fprintf(out, ",\"lag_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f,\"events\":%" PRIu64 ",\"early\":%" PRIu64 "}",
            ms(verify_lag_at(&n->lag, 0.5)), ms(verify_lag_at(&n->lag, 0.99)), ms(n->lag.max_us), n->lag.n,
            n->lag.n_early);
    fprintf(out, ",\"told_rev\":%" PRId64 ",\"reference_late\":%s,\"reference_silent_ms\":%.3f,\"held_up_ms\":%.3f",
            standing->told_rev, standing->late ? "true" : "false", ms(standing->silent_us), ms(standing->held_up_us));
    fprintf(out, ",\"losses\":{\"reference\":%" PRIu64 ",\"tier\":%" PRIu64 "},\"unreachable_ms\":%.3f",
            standing->n_reference_losses, standing->n_tier_losses, ms(n->cut_us));
    if (standing->is_kube)
        fprintf(out, ",\"listed\":%zu", standing->n_listed);
    fprintf(out, ",\"writes\":%" PRIu64 ",\"writes_failed\":%" PRIu64 "}\n", standing->n_written,
            standing->n_write_failures);
}

void verify_report_sum(struct verify_report *report, const struct verify_standing *standing)
{
    if (report->form == FORM_TABLE)
        write_table(report, standing);
    else
        write_json(report, standing);
}

/* bench/belfry-bench/report.c */
#include "report.h"

#include <assert.h>
#include <math.h>

static struct report_row *add(struct report *report, const char *name)
{
    assert(report->n_rows < REPORT_ROWS);
    struct report_row *row = &report->rows[report->n_rows++];
    row->name = name;
    return row;
}

void report_number(struct report *report, const char *name, double number)
{
    *add(report, name) = (struct report_row){.name = name, .number = isfinite(number) ? number : 0};
}

void report_text(struct report *report, const char *name, const char *text)
{
    *add(report, name) = (struct report_row){.name = name, .text = text};
}

void report_latency(struct report *report, const struct histogram *latency)
{
    static const struct {
        const char *name;
        double percent;
    } rows[] = {{"latency_p50_ms", 50},
                {"latency_p90_ms", 90},
                {"latency_p99_ms", 99},
                {"latency_p999_ms", 99.9},
                {"latency_max_ms", 100}};
    report_number(report, "latency_mean_ms", histogram_mean(latency) / 1e6);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        report_number(report, rows[i].name, (double)histogram_percentile(latency, rows[i].percent) / 1e6);
}

/* Whole numbers as such: counts are to be read exactly. */
static void print_number(double number, FILE *out)
{
    if (number == floor(number) && fabs(number) < 1e15)
        fprintf(out, "%.0f", number);
    else
        fprintf(out, "%.*f", fabs(number) < 1 ? 4 : fabs(number) < 1000 ? 2 : 0, number);
}

static void print_json_text(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void print_json(const struct report *report, FILE *out)
{
    fputc('{', out);
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct report_row *row = &report->rows[i];
        fprintf(out, "%s\"%s\":", i == 0 ? "" : ",", row->name);
        if (row->text != NULL)
            print_json_text(row->text, out);
        else
            print_number(row->number, out);
    }
    fputs("}\n", out);
}

void report_print(const struct report *report, enum report_form form, FILE *out)
{
    if (form == REPORT_JSON) {
        print_json(report, out);
    } else {
        for (size_t i = 0; i < report->n_rows; i++) {
            const struct report_row *row = &report->rows[i];
            fprintf(out, "%-34s ", row->name);
            if (row->text != NULL)
                fputs(row->text, out);
            else
                print_number(row->number, out);
            fputc('\n', out);
        }
    }
    fflush(out);
}

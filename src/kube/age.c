/* src/kube/age.c */
#include "kube/age.h"

#include <inttypes.h>
#include <stdio.h>

#define MINUTE 60
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define YEAR   (365 * DAY)

#define ZERO_TIME (-62135596800) /* 0001-01-01T00:00:00Z: a time that was never set */

/* ---- reading ---- */

/* Takes `n` digits from the front. */
static bool take_number(struct belfry_bytes *text, size_t n, int64_t *out)
{
    if (text->len < n)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        char digit = text->data[i];
        if (digit < '0' || digit > '9')
            return false;
        *out = *out * 10 + (digit - '0');
    }
    *text = belfry_bytes_of(text->data + n, text->len - n);
    return true;
}

static bool take_char(struct belfry_bytes *text, char expected)
{
    if (text->len == 0 || text->data[0] != expected)
        return false;
    *text = belfry_bytes_of(text->data + 1, text->len - 1);
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970-01-01. Years begin in March here, so that a leap day is the last day of its year. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t from_march = (month + 9) % 12;
    int64_t leap_days = (y + 400) / 4 - (y + 400) / 100 + (y + 400) / 400; /* + 400 keeps it positive */
    return (y + 400) * 365 + leap_days + (from_march * 153 + 2) / 5 + day - 1 - (719468 + 146097);
}

static bool take_day(struct belfry_bytes *text, int64_t *days)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day;
    if (!take_number(text, 4, &year) || !take_char(text, '-') || !take_number(text, 2, &month) ||
        !take_char(text, '-') || !take_number(text, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > lengths[month - 1] + (month == 2 && is_leap(year)))
        return false;
    *days = days_of(year, month, day);
    return true;
}

static bool take_clock(struct belfry_bytes *text, int64_t *seconds)
{
    int64_t h, m, s, ignored;
    if (!take_number(text, 2, &h) || !take_char(text, ':') || !take_number(text, 2, &m) || !take_char(text, ':') ||
        !take_number(text, 2, &s) || h > 23 || m > 59 || s > 59)
        return false;
    if (take_char(text, '.')) {
        if (!take_number(text, 1, &ignored))
            return false;
        while (take_number(text, 1, &ignored))
            ;
    }
    *seconds = h * HOUR + m * MINUTE + s;
    return true;
}

static bool take_zone(struct belfry_bytes *text, int64_t *offset_s)
{
    int64_t h, m;
    *offset_s = 0;
    if (take_char(text, 'Z'))
        return true;
    int sign = take_char(text, '+') ? 1 : take_char(text, '-') ? -1 : 0;
    if (sign == 0 || !take_number(text, 2, &h) || !take_char(text, ':') || !take_number(text, 2, &m) || h > 23 ||
        m > 59)
        return false;
    *offset_s = sign * (h * HOUR + m * MINUTE);
    return true;
}

static bool read_time(struct belfry_bytes text, int64_t *out)
{
    int64_t days, seconds, offset_s;
    if (!take_day(&text, &days) || !take_char(&text, 'T') || !take_clock(&text, &seconds) ||
        !take_zone(&text, &offset_s) || text.len > 0)
        return false;
    *out = days * DAY + seconds - offset_s;
    return true;
}

/* ---- writing ---- */

/* "3d4h", or "3d" without remainder. */
static void write_pair(int64_t s, int64_t unit, char unit_name, int64_t part, char part_name, char out[KUBE_AGE_MAX])
{
    int64_t rest = s % unit / part;
    if (rest == 0)
        snprintf(out, KUBE_AGE_MAX, "%" PRId64 "%c", s / unit, unit_name);
    else
        snprintf(out, KUBE_AGE_MAX, "%" PRId64 "%c%" PRId64 "%c", s / unit, unit_name, rest, part_name);
}

/* The longer the time, the fewer details; the limits are kubectl's. */
static void write_duration(int64_t s, char out[KUBE_AGE_MAX])
{
    if (s < 2 * MINUTE)
        write_pair(s, 1, 's', 1, 's', out);
    else if (s < 10 * MINUTE)
        write_pair(s, MINUTE, 'm', 1, 's', out);
    else if (s < 3 * HOUR)
        write_pair(s, MINUTE, 'm', MINUTE, 'm', out);
    else if (s < 8 * HOUR)
        write_pair(s, HOUR, 'h', MINUTE, 'm', out);
    else if (s < 2 * DAY)
        write_pair(s, HOUR, 'h', HOUR, 'h', out);
    else if (s < 8 * DAY)
        write_pair(s, DAY, 'd', HOUR, 'h', out);
    else if (s < 2 * YEAR)
        write_pair(s, DAY, 'd', DAY, 'd', out);
    else if (s < 8 * YEAR)
        write_pair(s, YEAR, 'y', DAY, 'd', out);
    else
        write_pair(s, YEAR, 'y', YEAR, 'y', out);
}

void kube_age_write(struct belfry_bytes timestamp, int64_t now_s, char out[KUBE_AGE_MAX])
{
    int64_t then;
    if (!read_time(timestamp, &then))
        snprintf(out, KUBE_AGE_MAX, "<invalid>");
    else if (then == ZERO_TIME)
        snprintf(out, KUBE_AGE_MAX, "<unknown>");
    else if (now_s - then < -1) /* tolerate clocks that differ by a second */
        snprintf(out, KUBE_AGE_MAX, "<invalid>");
    else
        write_duration(now_s > then ? now_s - then : 0, out);
}

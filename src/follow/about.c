/* src/follow/about.c */
#include "follow/about.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "wire/scan.h"
#include "wire/write.h"

#define LEVEL_BYTES 320 /* of one: its texts and nine numbers */
#define STAMP_BYTES 24

static_assert((ABOUT_LEVELS + 1) * (LEVEL_BYTES + 4) + ABOUT_STAMPS * (STAMP_BYTES + 4) < ABOUT_BYTES, "it all fits");
static_assert(ABOUT_NAME + ABOUT_VERSION + 2 * 3 + 9 * 11 < LEVEL_BYTES, "a level fits");

enum { NAME = 1, VERSION, ABOVE, SELF, CLOCK, STAMPS_FIELD };
enum {
    L_NAME = 1,
    L_VERSION,
    L_REVISION = 4, /* 3 was an address */
    L_LAG,
    L_SILENT,
    L_HOP,
    L_HOP_US,
    L_HOP_ERROR_US,
    L_AGE,
    L_STANDING,
    L_TROUBLE
};
enum { S_REV = 1, S_NS };

/* ---- writing ---- */

static uint8_t *about_put_number(uint8_t *to, unsigned field, uint64_t value)
{
    return value == 0 ? to : belfry_write_varint(belfry_write_varint(to, field << 3), value);
}

static uint8_t *about_put_bytes(uint8_t *to, unsigned field, const void *data, size_t len)
{
    to = belfry_write_varint(belfry_write_varint(to, field << 3 | 2), len);
    if (len > 0)
        memcpy(to, data, len);
    return to + len;
}

static uint8_t *about_put_text(uint8_t *to, unsigned field, const char *text)
{
    return text[0] == '\0' ? to : about_put_bytes(to, field, text, strlen(text));
}

static uint8_t *about_put_level(uint8_t *to, unsigned field, const struct about_level *level)
{
    uint8_t room[LEVEL_BYTES], *end = room;
    end = about_put_text(end, L_NAME, level->name);
    end = about_put_text(end, L_VERSION, level->version);
    end = about_put_number(end, L_REVISION, (uint64_t)level->revision);
    end = about_put_number(end, L_LAG, level->lag);
    end = about_put_number(end, L_SILENT, level->silent_ms + 1); /* BELFRY_NEVER: 0, which is not written */
    end = about_put_number(end, L_HOP, level->hop);
    end = about_put_number(end, L_HOP_US, level->hop_us);
    end = about_put_number(end, L_HOP_ERROR_US, level->hop_error_us);
    end = about_put_number(end, L_AGE, level->age_ms);
    end = about_put_number(end, L_STANDING, level->standing);
    end = about_put_number(end, L_TROUBLE, level->trouble);
    return about_put_bytes(to, field, room, (size_t)(end - room));
}

size_t about_write(const struct about *about, uint8_t out[ABOUT_BYTES])
{
    struct about_level self = about->self;
    self.name[0] = self.version[0] = '\0';
    uint8_t *end = about_put_text(out, NAME, about->self.name);
    end = about_put_text(end, VERSION, about->self.version);
    for (size_t i = 0; i < about->n_above; i++)
        end = about_put_level(end, ABOVE, &about->above[i]);
    end = about_put_level(end, SELF, &self);
    end = about_put_number(end, CLOCK, about->clock_ns);
    for (size_t i = 0; i < about->n_stamps; i++) {
        uint8_t room[STAMP_BYTES], *stamp = about_put_number(room, S_REV, (uint64_t)about->stamps[i].rev);
        stamp = about_put_number(stamp, S_NS, about->stamps[i].ns);
        end = about_put_bytes(end, STAMPS_FIELD, room, (size_t)(stamp - room));
    }
    return (size_t)(end - out);
}

/* ---- reading ---- */

bool about_is_tier(const struct about_level *level)
{
    return strncmp(level->version, "belfryd/", 8) == 0;
}

void about_copy(char *to, size_t len, struct belfry_bytes text)
{
    size_t n = text.len < len - 1 ? text.len : len - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = text.data[i] >= ' ' && text.data[i] <= '~' ? text.data[i] : '?';
    to[n] = '\0';
}

static enum belfry_err about_read_text(struct belfry_bytes message, unsigned field, char *to, size_t len)
{
    struct belfry_bytes text = {0};
    size_t at = 0;
    enum belfry_err err = belfry_scan_field(message, field, &at, &text);
    about_copy(to, len, text);
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

/* Numbers are at most INT64_MAX, so that sums do not overflow. */
static enum belfry_err about_read_number(struct belfry_bytes message, unsigned field, uint64_t *out)
{
    enum belfry_err err = belfry_scan_number(message, field, out);
    if (err == BELFRY_OK && *out > INT64_MAX)
        *out = INT64_MAX;
    return err;
}

static enum belfry_err about_read_level(struct belfry_bytes message, struct about_level *level)
{
    uint64_t revision = 0, silent = 0, hop = 0, standing = 0, trouble = 0;
    const struct {
        unsigned field;
        uint64_t *to;
    } numbers[] = {{L_REVISION, &revision}, {L_LAG, &level->lag},       {L_SILENT, &silent},
                   {L_HOP, &hop},           {L_HOP_US, &level->hop_us}, {L_HOP_ERROR_US, &level->hop_error_us},
                   {L_AGE, &level->age_ms}, {L_STANDING, &standing},    {L_TROUBLE, &trouble}};
    enum belfry_err err = about_read_text(message, L_NAME, level->name, sizeof(level->name));
    if (err == BELFRY_OK)
        err = about_read_text(message, L_VERSION, level->version, sizeof(level->version));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && err == BELFRY_OK; i++)
        err = about_read_number(message, numbers[i].field, numbers[i].to);
    level->revision = (int64_t)revision;
    level->silent_ms = silent == 0 ? BELFRY_NEVER : silent - 1;
    level->hop = hop <= ABOUT_HOP_HALF_TRIP ? (enum about_hop)hop : ABOUT_HOP_UNKNOWN;
    level->standing = standing <= ABOUT_STALE ? (enum about_standing)standing : ABOUT_UNKNOWN;
    level->trouble = trouble < ABOUT_TROUBLES ? (enum about_trouble)trouble : ABOUT_NO_TROUBLE;
    return err;
}

static enum belfry_err about_read_above(struct belfry_bytes message, struct about *out)
{
    struct belfry_bytes level;
    enum belfry_err err = BELFRY_OK;
    for (size_t at = 0; err == BELFRY_OK && out->n_above < ABOUT_LEVELS;) {
        err = belfry_scan_field(message, ABOVE, &at, &level);
        if (err == BELFRY_OK)
            err = about_read_level(level, &out->above[out->n_above++]);
    }
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

static enum belfry_err about_read_stamps(struct belfry_bytes message, struct about *out)
{
    struct belfry_bytes stamp;
    enum belfry_err err = BELFRY_OK;
    for (size_t at = 0; err == BELFRY_OK && out->n_stamps < ABOUT_STAMPS;) {
        uint64_t rev = 0, ns = 0;
        err = belfry_scan_field(message, STAMPS_FIELD, &at, &stamp);
        if (err == BELFRY_OK)
            err = about_read_number(stamp, S_REV, &rev);
        if (err == BELFRY_OK)
            err = about_read_number(stamp, S_NS, &ns);
        if (err == BELFRY_OK)
            out->stamps[out->n_stamps++] = (struct stamp){(int64_t)rev, ns};
    }
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

enum belfry_err about_read(struct belfry_bytes message, struct about *out)
{
    struct belfry_bytes self = {0};
    size_t at = 0;
    *out = (struct about){0};
    if (message.len > ABOUT_READ_MAX)
        return BELFRY_ERR_PROTOCOL;
    enum belfry_err err = belfry_scan_field(message, SELF, &at, &self);
    if (err == BELFRY_OK || err == BELFRY_ERR_AGAIN)
        err = about_read_level(self, &out->self);
    if (err == BELFRY_OK)
        err = about_read_text(message, NAME, out->self.name, sizeof(out->self.name));
    if (err == BELFRY_OK)
        err = about_read_text(message, VERSION, out->self.version, sizeof(out->self.version));
    if (err == BELFRY_OK)
        err = about_read_number(message, CLOCK, &out->clock_ns);
    if (err == BELFRY_OK)
        err = about_read_above(message, out);
    return err == BELFRY_OK ? about_read_stamps(message, out) : err;
}

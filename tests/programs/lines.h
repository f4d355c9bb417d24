/* tests/programs/lines.h: JSON objects on stdout, one a line. Bytes that are not ASCII are written as \u0080 to \u00ff,
 * so that keys and values, which are bytes, can be read back whatever they hold. Included by the one program that needs
 * it. */
#ifndef BELFRY_TESTS_LINES_H
#define BELFRY_TESTS_LINES_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <belfry/bytes.h>

static uint32_t crc_table[256];

static inline void crc_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ (c & 1 ? 0xEDB88320U : 0);
        crc_table[i] = c;
    }
}

static inline uint32_t crc(struct belfry_bytes b)
{
    uint32_t c = 0xFFFFFFFFU;
    for (size_t i = 0; i < b.len; i++)
        c = crc_table[(c ^ (unsigned char)b.data[i]) & 0xFF] ^ (c >> 8);
    return c ^ 0xFFFFFFFFU;
}

static inline void put_text(struct belfry_bytes text)
{
    putchar('"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static inline void put_string(const char *name, const char *text)
{
    printf(",\"%s\":", name);
    put_text((struct belfry_bytes){text, strlen(text)});
}

static inline void put_number(const char *name, uint64_t number)
{
    printf(",\"%s\":%" PRIu64, name, number);
}

#endif

/* src/cli/top/top_text.h: numbers and ages as people read them. Thread: any. */
#ifndef BELFRY_CLI_TOP_TOP_TEXT_H
#define BELFRY_CLI_TOP_TOP_TEXT_H

#include <stdint.h>

#define TOP_TEXT 32

void top_text_number(uint64_t number, char out[TOP_TEXT]); /* 1234567 is "1,234,567" */
void top_text_age(uint64_t ms, char out[TOP_TEXT]);        /* 90061000 ms is "1d01h" */

#endif

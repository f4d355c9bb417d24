/* src/cli/out/human_size.h: sizes for people, as etcdctl rounds them: 20480 is "20 kB". Thread: any. */
#ifndef BELFRY_CLI_OUT_HUMAN_SIZE_H
#define BELFRY_CLI_OUT_HUMAN_SIZE_H

#include <stdint.h>

#define HUMAN_SIZE 24

void human_size(int64_t bytes, char out[HUMAN_SIZE]);

#endif

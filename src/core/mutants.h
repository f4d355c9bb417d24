/* src/core/mutants.h
 *
 * mutants: bugs of the core that take more than a condition (base/sim.h). Their bodies are in tests/sim/core_mutants.c:
 * only the simulator is built with them, and everywhere else the calls are never reached and compiled away.
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_CORE_MUTANTS_H
#define BELFRY_CORE_MUTANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "core/output.h"

struct delivery;
struct stream;

/* As output_line(), but after its first part the line begins again. */
bool mutant_line_restarts(struct delivery *delivery, struct stream *stream, struct belfry_blob *line);

void mutant_progress_in_fragment(struct delivery *delivery, struct stream *stream);

/* The events of a revision in two responses. */
bool mutant_can_split(const struct response_pick *pick);
enum output_result mutant_revision_split(struct delivery *delivery, struct watcher *watcher,
                                         const struct response_pick *pick);

#endif

/* tests/sim/core_mutants.c: bugs of the core that take more than a condition. */
#include "core/mutants.h"

#include "core/delivery.h"

bool mutant_line_restarts(struct delivery *delivery, struct stream *stream, struct belfry_blob *line)
{
    struct outlet *outlet = &stream->outlet;
    struct belfry_blob *again = belfry_blob_ref(line);
    bool sent = output_line(delivery->output, outlet, line);
    if (!sent || outlet->rest == NULL) {
        belfry_blob_unref(again);
        return sent;
    }
    output_fill(delivery->output, outlet);
    output_end_rest(delivery->output, outlet);
    return output_line(delivery->output, outlet, again);
}

void mutant_progress_in_fragment(struct delivery *delivery, struct stream *stream)
{
    struct outlet *outlet = &stream->outlet;
    if (stream->progress_asked && outlet->room > 100 && rest_between(outlet->rest))
        stream->progress_asked = !delivery_progress(delivery, stream, -1);
}

bool mutant_can_split(const struct response_pick *pick)
{
    return pick->batch->n_events == 2 && pick->n == 2;
}

enum output_result mutant_revision_split(struct delivery *delivery, struct watcher *watcher,
                                         const struct response_pick *pick)
{
    struct outlet *outlet = &watcher->stream->outlet;
    struct response_pick half = *pick, other = *pick;
    half.n = 1;
    other.events++;
    other.n--;
    enum output_result result = output_response(delivery->output, outlet, watcher, &half, 0);
    if (result == OUTPUT_NO_ROOM || outlet->rest != NULL)
        return result;
    return output_response(delivery->output, outlet, watcher, &other, 0);
}

/* tests/sim/recipe.c */
#include "sim/recipe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define WITH_AUTH  "+auth"
#define WITH_READS "+reads"
#define WITH_KUBE  "+kube"

struct recipe recipe_of_seed(uint64_t seed, enum recipe_with with)
{
    static const enum recipe_with any[] = {RECIPE_WITH_AUTH,    RECIPE_WITH_AUTH,    RECIPE_WITH_READS,
                                           RECIPE_WITH_NOTHING, RECIPE_WITH_NOTHING, RECIPE_WITH_KUBE};
    struct belfry_rng rng = {.state = seed};
    size_t n = sizeof(any) / sizeof(any[0]);
    if (with == RECIPE_WITH_ANY || with == RECIPE_WITH_OTHERS)
        with = any[belfry_rng_below(&rng, with == RECIPE_WITH_ANY ? n : n - 1)]; /* kube is the last */
    return (struct recipe){.seed = seed,
                           .auth = with == RECIPE_WITH_AUTH,
                           .reads = with == RECIPE_WITH_READS,
                           .kube = with == RECIPE_WITH_KUBE};
}

/* Moves *text behind `word`, if it begins with that. */
static bool read_word(const char **text, const char *word)
{
    bool is_there = strncmp(*text, word, strlen(word)) == 0;
    *text += is_there ? strlen(word) : 0;
    return is_there;
}

/* Reads a decimal number and moves *text behind it. */
static bool read_number(const char **text, uint64_t *out)
{
    if (**text < '0' || **text > '9') /* strtoull would take a sign and blanks */
        return false;
    char *end;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

bool recipe_read(const char *text, struct recipe *out)
{
    struct recipe recipe = {0};
    if (!read_number(&text, &recipe.seed))
        return false;
    recipe.auth = read_word(&text, WITH_AUTH);
    recipe.reads = !recipe.auth && read_word(&text, WITH_READS);
    recipe.kube = !recipe.auth && !recipe.reads && read_word(&text, WITH_KUBE);
    while (*text == ',') {
        struct recipe_turn *turn = &recipe.turns[recipe.n_turns];
        if (recipe.n_turns == RECIPE_TURNS_MAX)
            return false;
        text++;
        if (!read_number(&text, &turn->step) || *text++ != ':' || !read_number(&text, &turn->seed))
            return false;
        if (recipe.n_turns > 0 && turn->step <= turn[-1].step)
            return false;
        recipe.n_turns++;
    }
    if (*text != '\0')
        return false;
    *out = recipe;
    return true;
}

const char *recipe_write(const struct recipe *recipe, char text[RECIPE_TEXT_BYTES])
{
    int at = snprintf(text, RECIPE_TEXT_BYTES, "%" PRIu64 "%s", recipe->seed,
                      recipe->auth    ? WITH_AUTH
                      : recipe->reads ? WITH_READS
                      : recipe->kube  ? WITH_KUBE
                                      : "");
    for (unsigned i = 0; i < recipe->n_turns; i++)
        at += snprintf(text + at, RECIPE_TEXT_BYTES - (size_t)at, ",%" PRIu64 ":%" PRIu64, recipe->turns[i].step,
                       recipe->turns[i].seed);
    return text;
}

bool recipe_turn_at(const struct recipe *recipe, uint64_t step, uint64_t seed, struct recipe *out)
{
    struct recipe turned = *recipe;
    while (turned.n_turns > 0 && turned.turns[turned.n_turns - 1].step >= step)
        turned.n_turns--;
    if (turned.n_turns == RECIPE_TURNS_MAX)
        return false;
    turned.turns[turned.n_turns++] = (struct recipe_turn){.step = step, .seed = seed};
    *out = turned;
    return true;
}

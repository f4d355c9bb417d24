/* src/daemon/config_resource.c */
#include "daemon/config_resource.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/config_table.h"

void config_resource_fini(struct definition_source *resource)
{
    free(resource->crd);
    free(resource->under);
    free(resource->prefix);
    free(resource->wrap);
    free(resource->key);
    *resource = (struct definition_source){0};
}

enum belfry_err config_resource_set(struct definition_source *resource, const char *name, const char *text,
                                    char why[CONFIG_WHY])
{
    char **const fields[N_RESOURCE_PARTS] = {&resource->crd, &resource->under, &resource->prefix, &resource->wrap,
                                             &resource->key};
    const char *nearest;
    const struct belfry_opt_row *row =
        belfry_opt_find(config_resource_rows, N_RESOURCE_PARTS, name, strlen(name), &nearest);
    if (row == NULL && nearest != NULL)
        return config_why(why, "a resource has no '%.48s': did you mean %s?", name, nearest);
    if (row == NULL)
        return config_why(why, "a resource has no '%.48s': it has crd or crds-under, prefix, wrap and key", name);
    if (*fields[row->id] != NULL)
        return config_why(why, "%s is there twice: keep one", name);
    if (*text == '\0')
        return config_why(why, "%s has no value", name);
    *fields[row->id] = strdup(text);
    return *fields[row->id] == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

enum belfry_err config_resource_check(const struct definition_source *resource, char why[CONFIG_WHY])
{
    if ((resource->crd == NULL) == (resource->under == NULL))
        return config_why(why, "say where its definition is: crd: FILE, or crds-under: a prefix in etcd%s",
                          resource->crd != NULL ? ", and not both" : "");
    if (resource->prefix != NULL && resource->prefix[strlen(resource->prefix) - 1] != '/')
        return config_why(why, "prefix '%.128s' must end in '/': otherwise it would cover its neighbours, too",
                          resource->prefix);
    if (resource->under != NULL && resource->prefix != NULL && strstr(resource->prefix, "{plural}") == NULL)
        return config_why(
            why, "prefix '%.128s' must have {plural}: otherwise all that crds-under finds would be the same keys",
            resource->prefix);
    return BELFRY_OK;
}

/* One of the words between commas: NAME=VALUE. */
static enum belfry_err set_word(struct definition_source *resource, char *word, char why[CONFIG_WHY])
{
    char *value = strchr(word, '=');
    if (value == NULL)
        return config_why(why, "'%.48s' is no option: write NAME=VALUE", word);
    *value++ = '\0';
    return config_resource_set(resource, word, value, why);
}

static enum belfry_err set_first(struct definition_source *resource, char *word, char why[CONFIG_WHY])
{
    const char *under = config_resource_rows[RESOURCE_UNDER].name;
    if (strncmp(word, under, strlen(under)) == 0 && word[strlen(under)] == '=')
        return set_word(resource, word, why);
    return config_resource_set(resource, config_resource_rows[RESOURCE_CRD].name, word, why);
}

enum belfry_err config_resource_parse(const char *text, struct definition_source *resource, char why[CONFIG_WHY])
{
    char *words = strdup(text), *rest = words;
    *resource = (struct definition_source){0};
    if (words == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = set_first(resource, strsep(&rest, ","), why);
    while (err == BELFRY_OK && rest != NULL)
        err = set_word(resource, strsep(&rest, ","), why);
    if (err == BELFRY_OK)
        err = config_resource_check(resource, why);
    free(words);
    if (err != BELFRY_OK)
        config_resource_fini(resource);
    return err;
}

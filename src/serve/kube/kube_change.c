/* src/serve/kube/kube_change.c */
#include "serve/kube/kube_change.h"

static bool is_everything(const struct kube_selector *selector)
{
    return selector == NULL || kube_selector_is_everything(selector);
}

static bool passes(const struct kube_object *object, const struct kube_selector *selector)
{
    if (object == NULL)
        return false;
    return is_everything(selector) || kube_selector_matches(selector, &object->attributes);
}

static enum belfry_err told_blindly(const struct kube_change *change, const struct kube_selector *selector,
                                    bool resumes, bool *told, enum kube_event *event)
{
    bool had = change->after == NULL && passes(change->before, selector);
    bool sure = had || (change->after != NULL && is_everything(selector));
    if (!sure && (!resumes || change->named == NULL))
        return BELFRY_ERR_COMPACTED;
    *told = true;
    *event = passes(change->after, selector) ? KUBE_MODIFIED : KUBE_DELETED;
    return BELFRY_OK;
}

enum belfry_err kube_change_told(const struct kube_change *change, const struct kube_selector *selector, bool resumes,
                                 bool *told, enum kube_event *event)
{
    if (change->blind)
        return told_blindly(change, selector, resumes, told, event);
    bool after = passes(change->after, selector), before = passes(change->before, selector);
    *told = after || before;
    if (after)
        *event = before ? KUBE_MODIFIED : KUBE_ADDED;
    else
        *event = KUBE_DELETED;
    return BELFRY_OK;
}

const struct kube_object *kube_change_shown(const struct kube_change *change, enum kube_event event)
{
    if (event != KUBE_DELETED)
        return change->after;
    return change->before != NULL ? change->before : change->named;
}

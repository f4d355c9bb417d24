/* src/replica/mdbfile.c */
#include "replica/mdbfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC        0xBEEFC0DEu
#define DATA_VERSION 1
#define PAGE_MIN     512
#define PAGE_MAX     32768
#define DEPTH_MAX    32 /* of LMDB's cursors */
#define METAS        2
#define NO_PAGE      SIZE_MAX

enum { PAGE_BRANCH = 0x01, PAGE_LEAF = 0x02, PAGE_OVERFLOW = 0x04, PAGE_META = 0x08 };
enum { TREE_NUMBERS = 0x08 }; /* keys are numbers of the machine: the free tree's */
enum { NODE_BIG = 0x01, NODE_TREE = 0x02 };

/* LMDB's structures, as they lie in the file. */
struct page_head {
    size_t number;
    uint16_t pad, flags;
    uint16_t lower, upper; /* of an overflow page: one number, its pages */
};

struct meta_page {
    struct page_head head;
    uint32_t magic, version;
    size_t address, map_bytes;
    struct mdbfile_tree free, main;
    size_t last_page, txn;
};

struct node_head {
    uint16_t low, high, flags, key_len; /* a leaf's value length, or with flags a branch's page number */
};

static_assert(sizeof(struct page_head) == sizeof(size_t) + 8, "as LMDB lays it out");
static_assert(sizeof(struct mdbfile_tree) == 8 + 5 * sizeof(size_t), "as LMDB lays it out");

/* ---- the meta pages ---- */

static bool is_meta(const struct meta_page *page)
{
    return page->head.flags == PAGE_META && page->magic == MAGIC && page->version == DATA_VERSION;
}

static bool is_sane(const struct mdbfile_meta *meta)
{
    size_t size = meta->page_bytes;
    return size >= PAGE_MIN && size <= PAGE_MAX && (size & (size - 1)) == 0 && meta->last_page >= METAS - 1 &&
           meta->last_page < SIZE_MAX / PAGE_MAX && meta->free.flags == TREE_NUMBERS;
}

static bool read_at(int fd, void *to, size_t len, size_t at)
{
    return pread(fd, to, len, (off_t)at) == (ssize_t)len;
}

/* As LMDB chooses: both pages must be meta pages, the one with the higher transaction counts. */
static bool read_meta(int fd, struct mdbfile_meta *out)
{
    struct meta_page pages[METAS];
    if (!read_at(fd, &pages[0], sizeof(pages[0]), 0) || !is_meta(&pages[0]) || pages[0].free.pad < PAGE_MIN ||
        pages[0].free.pad > PAGE_MAX || !read_at(fd, &pages[1], sizeof(pages[1]), pages[0].free.pad) ||
        !is_meta(&pages[1]) || pages[1].free.pad != pages[0].free.pad)
        return false;
    const struct meta_page *page = pages[1].txn > pages[0].txn ? &pages[1] : &pages[0];
    *out = (struct mdbfile_meta){.page_bytes = page->free.pad,
                                 .last_page = page->last_page,
                                 .txn = page->txn,
                                 .free = page->free,
                                 .main = page->main};
    return is_sane(out);
}

static enum mdbfile_length measure(int fd, size_t bytes, struct mdbfile_meta *meta)
{
    if (bytes == 0)
        return MDBFILE_NONE;
    if (!read_meta(fd, meta))
        return MDBFILE_FOREIGN;
    return bytes / meta->page_bytes > meta->last_page ? MDBFILE_WHOLE : MDBFILE_SHORT;
}

enum belfry_err mdbfile_measure(const char *path, enum mdbfile_length *out, struct mdbfile_meta *meta)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *out = MDBFILE_NONE;
        return BELFRY_OK;
    }
    if (fd < 0)
        return BELFRY_ERR_IO;
    bool known = fstat(fd, &st) == 0;
    if (known)
        *out = measure(fd, (size_t)st.st_size, meta);
    close(fd);
    return known ? BELFRY_OK : BELFRY_ERR_IO;
}

/* ---- pages ---- */

static enum belfry_err mdbfile_wrong(struct mdbfile *file, const char *why)
{
    if (file->why == NULL)
        file->why = why;
    return BELFRY_ERR_INVALID;
}

static bool has_bit(const uint8_t *bits, size_t page)
{
    return (bits[page / 8] >> (page % 8) & 1) != 0;
}

static void set_bit(uint8_t *bits, size_t page)
{
    bits[page / 8] = (uint8_t)(bits[page / 8] | 1u << (page % 8));
}

/* Marks `n` pages from `first` on as used. They must exist, and must not be in use already. */
static enum belfry_err mdbfile_claim(struct mdbfile *file, size_t first, size_t n)
{
    size_t last = file->meta.last_page;
    if (first < METAS || first > last || n > last - first + 1)
        return mdbfile_wrong(file, "a page number beyond the last page");
    if (n > file->bytes / file->meta.page_bytes || first > file->bytes / file->meta.page_bytes - n)
        return mdbfile_wrong(file, "a page beyond the end of the file");
    for (size_t page = first; page < first + n; page++) {
        if (has_bit(file->used, page))
            return mdbfile_wrong(file, "a page that is in two places");
        if (has_bit(file->free, page))
            return mdbfile_wrong(file, "a page in use that is also listed as free");
        set_bit(file->used, page);
    }
    return BELFRY_OK;
}

static const uint8_t *page_at(const struct mdbfile *file, size_t page)
{
    return file->map + page * file->meta.page_bytes;
}

static struct page_head head_at(const struct mdbfile *file, size_t page)
{
    struct page_head head;
    memcpy(&head, page_at(file, page), sizeof(head));
    return head;
}

/* ---- nodes ---- */

struct node {
    uint16_t flags;
    size_t bytes; /* that it takes of its page */
    struct belfry_bytes key;
    const uint8_t *data; /* of a leaf: the value, or the number of its first page */
    size_t len;          /* of the value */
    size_t page;         /* of a branch */
};

static size_t value_len(const struct node_head *head)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (size_t)head->low << 16 | head->high;
#else
    return (size_t)head->high << 16 | head->low;
#endif
}

/* Reads the i-th node; it lies inside of its page. */
static bool node_at(const struct mdbfile *file, const uint8_t *page, const struct page_head *head, size_t i,
                    struct node *out)
{
    uint16_t at;
    struct node_head node;
    memcpy(&at, page + sizeof(*head) + i * sizeof(at), sizeof(at));
    size_t end = file->meta.page_bytes;
    if (at < head->upper || at > end - sizeof(node))
        return false;
    memcpy(&node, page + at, sizeof(node));
    size_t room = end - at - sizeof(node);
    if (node.key_len > room)
        return false;
    const uint8_t *key = page + at + sizeof(node);
    *out = (struct node){.flags = node.flags,
                         .key = belfry_bytes_of(key, node.key_len),
                         .data = key + node.key_len,
                         .len = value_len(&node),
                         .page = value_len(&node) | (size_t)node.flags << 32};
    size_t in_page = head->flags == PAGE_BRANCH ? 0 : (node.flags & NODE_BIG) != 0 ? sizeof(size_t) : out->len;
    out->bytes = (sizeof(node) + node.key_len + in_page + 1) & ~(size_t)1;
    return in_page <= room - node.key_len;
}

/* ---- trees ---- */

struct walk {
    struct mdbfile *file;
    const struct mdbfile_tree *tree;
    mdbfile_row_fn row;
    void *user;
    size_t branches, leaves, overflows, rows; /* met so far */
};

/* Keys from `low`, below `high`; a missing one is no bound. */
struct bounds {
    struct belfry_bytes low, high;
    bool has_low, has_high;
};

static int mdbfile_compare(const struct walk *walk, struct belfry_bytes a, struct belfry_bytes b)
{
    if ((walk->tree->flags & TREE_NUMBERS) == 0)
        return belfry_bytes_cmp(a, b);
    size_t x, y;
    memcpy(&x, a.data, sizeof(x));
    memcpy(&y, b.data, sizeof(y));
    return x < y ? -1 : x > y;
}

static enum belfry_err check_key(const struct walk *walk, struct belfry_bytes key, const struct bounds *bounds)
{
    if ((walk->tree->flags & TREE_NUMBERS) != 0 && key.len != sizeof(size_t))
        return mdbfile_wrong(walk->file, "a key of the wrong length");
    if ((bounds->has_low && mdbfile_compare(walk, key, bounds->low) < 0) ||
        (bounds->has_high && mdbfile_compare(walk, key, bounds->high) >= 0))
        return mdbfile_wrong(walk->file, "a key out of order");
    return BELFRY_OK;
}

/* A value that has its own pages. */
static enum belfry_err open_big(struct walk *walk, const struct node *node, const uint8_t **data)
{
    size_t first, page_bytes = walk->file->meta.page_bytes;
    memcpy(&first, node->data, sizeof(first));
    enum belfry_err err = mdbfile_claim(walk->file, first, 1);
    if (err != BELFRY_OK)
        return err;
    struct page_head head = head_at(walk->file, first);
    uint32_t n;
    memcpy(&n, &head.lower, sizeof(n));
    if (head.number != first || head.flags != PAGE_OVERFLOW || n == 0 || node->len > n * page_bytes - sizeof(head))
        return mdbfile_wrong(walk->file, "pages of a large value that are not");
    walk->overflows += n;
    *data = page_at(walk->file, first) + sizeof(head);
    return n > 1 ? mdbfile_claim(walk->file, first + 1, n - 1) : BELFRY_OK;
}

static enum belfry_err walk_row(struct walk *walk, const struct node *node)
{
    const uint8_t *data = node->data;
    bool is_tree = (node->flags & NODE_TREE) != 0;
    if ((node->flags & ~(NODE_BIG | NODE_TREE)) != 0 || is_tree != (walk->tree == &walk->file->meta.main))
        return mdbfile_wrong(walk->file, "a row of an unknown kind");
    enum belfry_err err = (node->flags & NODE_BIG) != 0 ? open_big(walk, node, &data) : BELFRY_OK;
    if (err != BELFRY_OK)
        return err;
    walk->rows++;
    return walk->row(node->key, belfry_bytes_of(data, node->len), walk->user)
               ? BELFRY_OK
               : mdbfile_wrong(walk->file, "a row that is wrong");
}

static enum belfry_err walk_leaf(struct walk *walk, const uint8_t *page, const struct page_head *head, size_t n,
                                 struct bounds bounds)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct node node;
        if (!node_at(walk->file, page, head, i, &node))
            return mdbfile_wrong(walk->file, "a row outside of its page");
        enum belfry_err err = check_key(walk, node.key, &bounds);
        if (err == BELFRY_OK && i > 0 && mdbfile_compare(walk, node.key, bounds.low) == 0)
            err = mdbfile_wrong(walk->file, "a key that is there twice");
        if (err == BELFRY_OK)
            err = walk_row(walk, &node);
        if (err != BELFRY_OK)
            return err;
        bytes += node.bytes;
        bounds.low = node.key;
        bounds.has_low = true;
    }
    walk->leaves++;
    return bytes == walk->file->meta.page_bytes - head->upper
               ? BELFRY_OK
               : mdbfile_wrong(walk->file, "rows that overlap in their page");
}

static enum belfry_err walk_page(struct walk *walk, size_t number, unsigned level, struct bounds bounds);

/* The first key of a branch is not used: its child has the lower bound of the page. */
static enum belfry_err walk_branch(struct walk *walk, const uint8_t *page, const struct page_head *head, size_t n,
                                   unsigned level, const struct bounds *bounds)
{
    size_t bytes = 0;
    struct node node, after;
    if (!node_at(walk->file, page, head, 0, &node))
        return mdbfile_wrong(walk->file, "a branch outside of its page");
    walk->branches++;
    struct bounds child = *bounds;
    for (size_t i = 0; i < n; i++, node = after) {
        child.high = bounds->high;
        child.has_high = bounds->has_high;
        if (i + 1 < n) {
            if (!node_at(walk->file, page, head, i + 1, &after))
                return mdbfile_wrong(walk->file, "a branch outside of its page");
            enum belfry_err err = check_key(walk, after.key, &child);
            if (err != BELFRY_OK)
                return err;
            child.high = after.key;
            child.has_high = true;
        }
        enum belfry_err err = walk_page(walk, node.page, level + 1, child);
        if (err != BELFRY_OK)
            return err;
        child.low = child.high;
        child.has_low = child.has_high;
        bytes += node.bytes;
    }
    return bytes == walk->file->meta.page_bytes - head->upper
               ? BELFRY_OK
               : mdbfile_wrong(walk->file, "branches that overlap in their page");
}

static enum belfry_err walk_page(struct walk *walk, size_t number, unsigned level, struct bounds bounds)
{
    bool is_leaf = level == walk->tree->depth;
    enum belfry_err err = mdbfile_claim(walk->file, number, 1);
    if (err != BELFRY_OK)
        return err;
    if (is_leaf && walk->row == NULL) {
        walk->leaves++;
        return BELFRY_OK;
    }
    struct page_head head = head_at(walk->file, number);
    size_t from = sizeof(head), end = walk->file->meta.page_bytes;
    if (head.number != number || head.flags != (is_leaf ? PAGE_LEAF : PAGE_BRANCH) || head.lower <= from ||
        head.lower > head.upper || head.upper > end || (head.lower - from) % sizeof(uint16_t) != 0)
        return mdbfile_wrong(walk->file, "a page that is not what its place says");
    size_t n = (head.lower - from) / sizeof(uint16_t);
    const uint8_t *page = page_at(walk->file, number);
    return is_leaf ? walk_leaf(walk, page, &head, n, bounds) : walk_branch(walk, page, &head, n, level, &bounds);
}

enum belfry_err mdbfile_walk(struct mdbfile *file, const struct mdbfile_tree *tree, mdbfile_row_fn row, void *user)
{
    struct walk walk = {.file = file, .tree = tree, .row = row, .user = user};
    if (tree->root == NO_PAGE)
        return tree->rows == 0 && tree->depth == 0 ? BELFRY_OK : mdbfile_wrong(file, "a tree without a root");
    if (tree->depth == 0 || tree->depth > DEPTH_MAX || (tree->flags & ~TREE_NUMBERS) != 0)
        return mdbfile_wrong(file, "a tree of an unknown kind");
    enum belfry_err err = walk_page(&walk, tree->root, 1, (struct bounds){0});
    if (err != BELFRY_OK)
        return err;
    bool counted = walk.branches == tree->branches && walk.leaves == tree->leaves &&
                   (row == NULL || (walk.overflows == tree->overflows && walk.rows == tree->rows));
    return counted ? BELFRY_OK : mdbfile_wrong(file, "a tree with more or fewer pages than it should have");
}

const struct mdbfile_tree *mdbfile_table(const struct mdbfile *file, const char *name)
{
    for (size_t i = 0; i < file->n_tables; i++) {
        if (strcmp(file->tables[i].name, name) == 0)
            return &file->tables[i].tree;
    }
    return NULL;
}

/* ---- opening ---- */

/* A row of the free tree: | n | page numbers |. */
static bool on_free(struct belfry_bytes key, struct belfry_bytes value, void *user)
{
    struct mdbfile *file = user;
    size_t n, page;
    (void)key;
    if (value.len < sizeof(n))
        return false;
    memcpy(&n, value.data, sizeof(n));
    if (n > value.len / sizeof(n) - 1)
        return false;
    for (size_t i = 1; i <= n; i++) {
        memcpy(&page, value.data + i * sizeof(page), sizeof(page));
        if (page < METAS || page > file->meta.last_page || has_bit(file->used, page) || has_bit(file->free, page))
            return false;
        set_bit(file->free, page);
    }
    return true;
}

/* A row of the main tree. */
static bool on_table(struct belfry_bytes key, struct belfry_bytes value, void *user)
{
    struct mdbfile *file = user;
    if (file->n_tables == MDBFILE_TABLES || key.len >= MDBFILE_NAME || value.len != sizeof(struct mdbfile_tree))
        return false;
    struct mdbfile_table *table = &file->tables[file->n_tables++];
    memcpy(table->name, key.data, key.len);
    memcpy(&table->tree, value.data, value.len);
    return true;
}

static enum belfry_err map_file(struct mdbfile *file, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return BELFRY_ERR_IO;
    file->bytes = (size_t)st.st_size;
    switch (measure(fd, file->bytes, &file->meta)) {
    case MDBFILE_WHOLE:
    case MDBFILE_SHORT:
        break;
    case MDBFILE_NONE:
    case MDBFILE_FOREIGN:
        return mdbfile_wrong(file, "no meta page");
    }
    file->bits_bytes = file->meta.last_page / 8 + 1;
    if (file->bits_bytes > file->bytes) /* no file of this length can have that last page */
        return mdbfile_wrong(file, "a last page far beyond the end of the file");
    void *map = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return BELFRY_ERR_NOMEM;
    file->map = map;
    void *used = mmap(NULL, 2 * file->bits_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (used == MAP_FAILED)
        return BELFRY_ERR_NOMEM;
    file->used = used;
    file->free = file->used + file->bits_bytes;
    return BELFRY_OK;
}

enum belfry_err mdbfile_open(struct mdbfile *file, const char *path)
{
    *file = (struct mdbfile){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return BELFRY_ERR_IO;
    enum belfry_err err = map_file(file, fd);
    close(fd);
    if (err == BELFRY_OK)
        err = mdbfile_walk(file, &file->meta.free, on_free, file);
    if (err == BELFRY_OK)
        err = mdbfile_walk(file, &file->meta.main, on_table, file);
    if (err != BELFRY_OK)
        mdbfile_close(file);
    return err;
}

void mdbfile_close(struct mdbfile *file)
{
    if (file->used != NULL)
        munmap(file->used, 2 * file->bits_bytes);
    if (file->map != NULL)
        munmap(file->map, file->bytes);
    file->used = NULL;
    file->map = NULL;
}

/*
 * Records what a process does to the files of one directory, and ends the process at a chosen operation.
 *
 * Loaded with LD_PRELOAD. Every change of a file or name below POWER_ROOT happens under one lock together with its record
 * in the file POWER_TRACE, so the order of the records is the order of the changes. Lines the process writes to its
 * standard output become records too: what it promised, in the same order. `trace.rs` reads the records, `image.rs` makes
 * of them what a disk may hold after a power loss.
 *
 * A sync is two records: what was written before the first is durable once the second is there. Nothing is really synced,
 * since the page cache outlives the process; between the two the thread sleeps a random time of at most POWER_SYNC_MICROS,
 * as on a disk, and others go on writing.
 *
 * Before operation number POWER_CRASH_AT (counted from 1) the process is killed.
 *
 * Never loses a change silently: what it does not model is recorded as UNKNOWN, and the reader compares the outcome of
 * all records with the directory.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The numbers are those of `trace.rs`. */
enum kind { CREATE = 1, BIND, WRITE, TRUNCATE, ALLOCATE, SYNC_BEGIN, SYNC_END, RENAME, LINK, UNLINK, FACT, UNKNOWN };

struct __attribute__((packed)) head {
    uint8_t kind;
    uint32_t file;
    uint64_t a;
    uint64_t b;
    uint32_t length;
};

/* Files a process may touch in one life: a run of some seconds makes a few hundred. */
#define FILES_MAX 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int trace = -1;
static uint64_t operations, crash_at, tickets, chance, sync_micros;
static struct { dev_t device; ino_t inode; uint32_t file; } files[FILES_MAX];
static size_t files_known;
static uint32_t files_made;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

static void start(void)
{
    static int started;
    if (started)
        return;
    started = 1;
    const char *path = getenv("POWER_ROOT"), *to = getenv("POWER_TRACE");
    if (!path || !to || !realpath(path, root))
        return;
    root_length = strlen(root);
    const char *at = getenv("POWER_CRASH_AT"), *seed = getenv("POWER_SEED"), *micros = getenv("POWER_SYNC_MICROS");
    crash_at = at ? strtoull(at, NULL, 10) : 0;
    chance = seed ? strtoull(seed, NULL, 10) : 1;
    sync_micros = micros ? strtoull(micros, NULL, 10) : 0;
    trace = REAL(open)(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (trace < 0)
        abort();
}

static void enter(void)
{
    pthread_mutex_lock(&lock);
    start();
}

static void leave(void)
{
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
}

/* Called before a change, under the lock. */
static void count(void)
{
    if (++operations == crash_at) {
        kill(getpid(), SIGKILL);
        for (;;)
            pause();
    }
}

static void record(enum kind kind, uint32_t file, uint64_t a, uint64_t b, const struct iovec *parts, int count, size_t length)
{
    int kept = errno;
    struct head head = { (uint8_t)kind, file, a, b, (uint32_t)length };
    struct iovec all[18] = { { &head, sizeof head } };
    if (count > 17 || length > UINT32_MAX)
        abort();
    size_t left = length, used = 1;
    for (int at = 0; at < count && left > 0; at++) {
        size_t part = parts[at].iov_len < left ? parts[at].iov_len : left;
        all[used].iov_base = parts[at].iov_base;
        all[used++].iov_len = part;
        left -= part;
    }
    ssize_t written = REAL(writev)(trace, all, (int)used);
    if (written != (ssize_t)(sizeof head + length))
        abort();
    errno = kept;
}

static void record_bytes(enum kind kind, uint32_t file, uint64_t a, uint64_t b, const void *bytes, size_t length)
{
    struct iovec part = { (void *)bytes, length };
    record(kind, file, a, b, &part, 1, length);
}

static void unknown(const char *what)
{
    if (trace >= 0)
        record_bytes(UNKNOWN, 0, 0, 0, what, strlen(what));
}

/* The name below the root, "" for the root itself, NULL for a path elsewhere. Paths of the process are absolute. */
static const char *below(const char *path)
{
    if (trace < 0 || !path || strncmp(path, root, root_length) != 0)
        return NULL;
    if (path[root_length] == '\0')
        return path + root_length;
    if (path[root_length] != '/')
        return NULL;
    const char *name = path + root_length;
    while (*name == '/')
        name++;
    return name;
}

static uint32_t known(const struct stat *what)
{
    for (size_t at = files_known; at > 0; at--)
        if (files[at - 1].inode == what->st_ino && files[at - 1].device == what->st_dev)
            return files[at - 1].file;
    return 0;
}

/* The number of an open file below the root, 0 for others. */
static uint32_t file_of(int fd)
{
    struct stat what;
    if (trace < 0 || fd == trace || fstat(fd, &what) != 0)
        return 0;
    return known(&what);
}

static uint32_t remember(const struct stat *what)
{
    if (files_known == FILES_MAX)
        abort();
    files[files_known].device = what->st_dev;
    files[files_known].inode = what->st_ino;
    files[files_known++].file = ++files_made;
    return files_made;
}

static int open_file(int directory, const char *path, int flags, mode_t mode)
{
    int (*really)(int, const char *, int, ...) = REAL(openat);
    enter();
    const char *name = directory == AT_FDCWD || (path && path[0] == '/') ? below(path) : NULL;
    if (!name) {
        leave();
        return really(directory, path, flags, mode);
    }
    struct stat before, after;
    int was_there = stat(path, &before) == 0;
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    if ((writes && !was_there) || (flags & O_TRUNC))
        count();
    int fd = really(directory, path, flags, mode);
    if (fd >= 0 && fstat(fd, &after) == 0) {
        uint32_t file = was_there ? known(&after) : 0;
        if (file == 0) {
            file = remember(&after);
            record_bytes(was_there ? BIND : CREATE, file, 0, 0, name, strlen(name));
        }
        if (was_there && (flags & O_TRUNC))
            record(TRUNCATE, file, 0, 0, NULL, 0, 0);
        if (writes && (flags & (O_DIRECT | O_SYNC | O_DSYNC)))
            unknown("open with O_DIRECT, O_SYNC or O_DSYNC");
    }
    leave();
    return fd;
}

#define MODE(flags, mode)                                                                                              \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                           \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return open_file(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return open_file(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, mode) return open_file(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, mode) return open_file(at, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Writes at `offset`, or where the file stands for -1. */
static ssize_t write_parts(int fd, const struct iovec *parts, int number, off_t offset)
{
    ssize_t (*writes)(int, const struct iovec *, int) = REAL(writev);
    ssize_t (*writes_at)(int, const struct iovec *, int, off_t) = REAL(pwritev);
    enter();
    uint32_t file = fd == STDOUT_FILENO ? 0 : file_of(fd);
    if (file) {
        count();
        if (offset < 0 || (fcntl(fd, F_GETFL) & O_APPEND)) {
            struct stat now;
            int appends = fcntl(fd, F_GETFL) & O_APPEND;
            off_t from = appends ? (fstat(fd, &now) == 0 ? now.st_size : 0) : lseek(fd, 0, SEEK_CUR);
            ssize_t written = offset < 0 ? writes(fd, parts, number) : writes_at(fd, parts, number, offset);
            if (written > 0)
                record(WRITE, file, (uint64_t)from, 0, parts, number, (size_t)written);
            leave();
            return written;
        }
    }
    ssize_t written = offset < 0 ? writes(fd, parts, number) : writes_at(fd, parts, number, offset);
    if (file && written > 0)
        record(WRITE, file, (uint64_t)offset, 0, parts, number, (size_t)written);
    if (fd == STDOUT_FILENO && trace >= 0 && written > 0)
        record(FACT, 0, 0, 0, parts, number, (size_t)written);
    leave();
    return written;
}

static ssize_t write_bytes(int fd, const void *bytes, size_t length, off_t offset)
{
    struct iovec part = { (void *)bytes, length };
    return write_parts(fd, &part, 1, offset);
}

ssize_t write(int fd, const void *bytes, size_t length) { return write_bytes(fd, bytes, length, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return write_bytes(fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return write_bytes(fd, bytes, length, at); }
ssize_t writev(int fd, const struct iovec *parts, int number) { return write_parts(fd, parts, number, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int number, off_t at) { return write_parts(fd, parts, number, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int number, off64_t at) { return write_parts(fd, parts, number, at); }

static uint64_t draw(void)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance;
}

static int sync_file(int fd, int (*really)(int))
{
    enter();
    uint32_t file = file_of(fd);
    if (!file) {
        leave();
        return really(fd);
    }
    count();
    uint64_t ticket = ++tickets;
    record(SYNC_BEGIN, file, ticket, 0, NULL, 0, 0);
    uint64_t micros = sync_micros ? draw() % sync_micros : 0;
    leave();
    if (micros) {
        struct timespec pause = { 0, (long)micros * 1000 };
        nanosleep(&pause, NULL);
    }
    enter();
    count();
    record(SYNC_END, file, ticket, 0, NULL, 0, 0);
    leave();
    return 0;
}

int fsync(int fd) { return sync_file(fd, REAL(fsync)); }
int fdatasync(int fd) { return sync_file(fd, REAL(fdatasync)); }

/* Starts the write-back and promises nothing: no record. */
int sync_file_range(int fd, off64_t from, off64_t length, unsigned int flags)
{
    (void)fd, (void)from, (void)length, (void)flags;
    return 0;
}

int ftruncate(int fd, off_t size)
{
    enter();
    uint32_t file = file_of(fd);
    if (file)
        count();
    int result = REAL(ftruncate)(fd, size);
    if (file && result == 0)
        record(TRUNCATE, file, (uint64_t)size, 0, NULL, 0, 0);
    leave();
    return result;
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

int fallocate(int fd, int mode, off_t from, off_t length)
{
    enter();
    uint32_t file = file_of(fd);
    if (file)
        count();
    int result = REAL(fallocate)(fd, mode, from, length);
    struct stat now;
    /* Space past the end changes nothing that can be read; a hole is punched only there, too (the end is checked). */
    if (file && result == 0 && mode == 0)
        record(ALLOCATE, file, (uint64_t)from, (uint64_t)length, NULL, 0, 0);
    else if (file && result == 0 && (mode & ~FALLOC_FL_KEEP_SIZE) &&
             !(mode == (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) && fstat(fd, &now) == 0 && from >= now.st_size))
        unknown("fallocate with flags inside the file");
    leave();
    return result;
}
int fallocate64(int fd, int mode, off64_t from, off64_t length) { return fallocate(fd, mode, from, length); }

int posix_fallocate(int fd, off_t from, off_t length) { return fallocate(fd, 0, from, length) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off64_t from, off64_t length) { return posix_fallocate(fd, from, length); }

static void record_pair(enum kind kind, const char *from, const char *to)
{
    struct iovec parts[2] = { { (void *)from, strlen(from) + 1 }, { (void *)to, strlen(to) } };
    record(kind, 0, 0, 0, parts, 2, parts[0].iov_len + parts[1].iov_len);
}

static int change_pair(enum kind kind, const char *from, const char *to, int (*really)(const char *, const char *))
{
    enter();
    const char *old = below(from), *new = below(to);
    if (old || new)
        count();
    int result = really(from, to);
    if (result == 0 && old && new)
        record_pair(kind, old, new);
    else if (result == 0 && (old || new))
        unknown("a name that crosses the directory");
    leave();
    return result;
}

int rename(const char *from, const char *to) { return change_pair(RENAME, from, to, REAL(rename)); }
int link(const char *from, const char *to) { return change_pair(LINK, from, to, REAL(link)); }

int unlink(const char *path)
{
    enter();
    const char *name = below(path);
    if (name)
        count();
    int result = REAL(unlink)(path);
    if (result == 0 && name)
        record_bytes(UNLINK, 0, 0, 0, name, strlen(name));
    leave();
    return result;
}

/* Not modelled, since nothing here does them; the record makes the run fail if something begins to. */
#define FLAGGED(result, name, parameters, arguments, what)                                                             \
    result name parameters                                                                                            \
    {                                                                                                                  \
        enter();                                                                                                       \
        if (what)                                                                                                      \
            unknown(#name);                                                                                            \
        result outcome = REAL(name) arguments;                                                                         \
        leave();                                                                                                       \
        return outcome;                                                                                                \
    }

FLAGGED(int, mkdir, (const char *path, mode_t mode), (path, mode), below(path) && *below(path) && access(path, F_OK) != 0)
FLAGGED(int, rmdir, (const char *path), (path), below(path))
FLAGGED(int, truncate, (const char *path, off_t size), (path, size), below(path))
FLAGGED(int, truncate64, (const char *path, off64_t size), (path, size), below(path))
FLAGGED(int, renameat, (int a, const char *b, int c, const char *d), (a, b, c, d), below(b) || below(d))
FLAGGED(int, renameat2, (int a, const char *b, int c, const char *d, unsigned int e), (a, b, c, d, e), below(b) || below(d))
FLAGGED(int, linkat, (int a, const char *b, int c, const char *d, int e), (a, b, c, d, e), below(b) || below(d))
FLAGGED(int, unlinkat, (int a, const char *b, int c), (a, b, c), below(b))
FLAGGED(int, syncfs, (int fd), (fd), file_of(fd))
FLAGGED(void *, mmap, (void *a, size_t b, int c, int d, int e, off_t f), (a, b, c, d, e, f),
        (c & PROT_WRITE) && (d & MAP_SHARED) && e >= 0 && file_of(e))
FLAGGED(void *, mmap64, (void *a, size_t b, int c, int d, int e, off64_t f), (a, b, c, d, e, f),
        (c & PROT_WRITE) && (d & MAP_SHARED) && e >= 0 && file_of(e))

/* What the stories of tests/siem/stories.py need and no ordinary program does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "sleep") == 0) {
        sleep((unsigned)atoi(argv[2]));
        return 0;
    }
    /* A system call of the x32 interface, which the filter kills. */
    if (argc > 1 && strcmp(argv[1], "x32") == 0) {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(0x40000027L) : "rcx", "r11", "memory");
        printf("survived: %ld\n", result);
        return 0;
    }
    /* The loader as a program. */
    if (argc > 1 && strcmp(argv[1], "loader") == 0) {
        execl("/lib64/ld-linux-x86-64.so.2", "ld.so", "/usr/bin/id", (char *)NULL);
        perror("execl");
        return 0;
    }
    return 2;
}

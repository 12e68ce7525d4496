/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a logger, as libnccl is one, for a program that unloads it. */
void logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	__attribute__((visibility("default")));
extern unsigned logged __attribute__((visibility("default")));

unsigned logged;

void logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
	logged++;
}

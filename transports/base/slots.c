/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of pointers; see slots.h. */
#include "base/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#define SLOTS_MIN 64
#define SLOTS_MAX (1 << 20)

static int grow(struct slots *slots)
{
	uint32_t count = slots->count ? slots->count * 2 : SLOTS_MIN;
	struct slot *grown;

	if (count > SLOTS_MAX)
		return -ENOMEM;
	grown = realloc(slots->slots, count * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + slots->count, 0, (count - slots->count) * sizeof(*grown));
	slots->slots = grown;
	slots->count = count;
	return 0;
}

int slots_add(struct slots *slots, void *entry, uint32_t *number)
{
	while (slots->taken < slots->count && slots->slots[slots->taken].entry)
		slots->taken++;
	if (slots->taken == slots->count && grow(slots))
		return -ENOMEM;
	*number = slots->taken;
	slots->slots[*number].entry = entry;
	slots->slots[*number].generation++;
	slots->used++;
	return 0;
}

void slots_remove(struct slots *slots, uint32_t number)
{
	slots->slots[number].entry = NULL;
	slots->taken = (uint32_t)anynet_min(slots->taken, number);
	slots->used--;
}

void *slots_at(const struct slots *slots, uint32_t number)
{
	return number < slots->count ? slots->slots[number].entry : NULL;
}

uint64_t slots_token(const struct slots *slots, uint32_t number)
{
	return (uint64_t)slots->slots[number].generation << 32 | (number + 1);
}

void *slots_find(const struct slots *slots, uint64_t token)
{
	uint32_t number = (uint32_t)token - 1;
	void *entry = slots_at(slots, number);

	return entry && slots_token(slots, number) == token ? entry : NULL;
}

void slots_free(struct slots *slots)
{
	free(slots->slots);
	*slots = (struct slots){ 0 };
}

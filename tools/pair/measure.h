/* SPDX-License-Identifier: Apache-2.0 */
/* How the way between two hosts is measured through the plugin. */
#ifndef PAIR_MEASURE_H
#define PAIR_MEASURE_H

struct measure {
	int dev;         /* of the net, on both hosts */
	int streams;     /* connections of the plugin at once; 1 … TRAFFIC_CHANNELS_MAX */
	int ms;          /* of each bandwidth run, at most; 0 = none is made */
	long long bytes; /* of each bandwidth run, at most */
};

#endif

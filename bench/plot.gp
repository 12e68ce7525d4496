# SPDX-License-Identifier: Apache-2.0
# Plots the medians of one figure: gnuplot -e "figure='lat'; dir='results'" plot.gp
# reads DIR/FIGURE.dat (medians.awk), writes DIR/FIGURE.svg.
data = dir . '/' . figure . '.dat'
nets = int(system("grep -c '^\"' " . data))

set datafile missing NaN # lines go on over rows that are filtered out
set logscale x 2
set xtics 4
set format x '%.0b%B'
set xlabel 'message size (bytes)'
set grid
set key top left

if (figure eq 'lat') {
	set terminal svg size 800,500 dynamic background 'white'
	set output dir . '/lat.svg'
	set logscale y
	set ylabel 'half of a round trip, median (us)'
	plot for [n = 0:nets-1] data index n \
		using (strcol(4) eq 'p50_us' ? $1 : NaN):5 with linespoints title columnheader(1)
} else {
	set terminal svg size 1200,800 dynamic background 'white'
	set output dir . '/bw.svg'
	set yrange [0:*]
	set xtics ('4 Ki' 4096, '64 Ki' 65536, '512 Ki' 524288, '1 Mi' 1048576)
	set offsets 0, 0, graph 0.25, 0
	set multiplot layout 2,3
	do for [ways = 1:2] {
		do for [comms in '1 16 64'] {
			set title comms . ' comm(s), ' . (ways == 1 ? 'one way' : 'both ways')
			set ylabel 'GB/s each way'
			plot for [n = 0:nets-1] data index n \
				using (strcol(4) eq 'GB/s' && $2 == comms + 0 && $3 == ways ? $1 : NaN):5 \
				with linespoints title columnheader(1)
		}
	}
	unset multiplot
}

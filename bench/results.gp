# SPDX-License-Identifier: Apache-2.0
# README's results as a picture: gnuplot bench/results.gp >docs/results.svg
set terminal svg size 720,320 font "sans-serif,12" background "white"
set title "Speed of anynet ÷ speed of NCCL's net" offset -14,0 noenhanced
set xrange [0:2]
set yrange [8.6:-0.6]
set style fill solid 0.8 noborder
set xtics 0.5 nomirror
set ytics noenhanced scale 0 nomirror
set grid xtics lc rgb "#dddddd"
set border 1
set arrow 1 from 1,-0.6 to 1,8.6 nohead lc rgb "#444444" lw 1.5 front
unset key
barcolor(r) = r < 1 ? 0xd98200 : 0x1a5fb4
plot "bench/results.dat" using (0):0:(0):1:($0-0.32):($0+0.32):(barcolor($1)):ytic(2) with boxxyerror lc rgb variable, \
	"" using ($1+0.03):0:(sprintf("%.2f", $1)) with labels left noenhanced

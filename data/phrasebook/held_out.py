"""Combinations of a construction and a word that training never shows.

A word counts as used in a construction when it occurs anywhere inside the span that the construction builds.  The list
is fixed: it is spread over many words, none of them twice, and over most constructions.
"""

from __future__ import annotations

TABLE = """
adjective-person 年轻 热情 高
adjective-place 真
adjective-thing 买 便宜
adverb-frequency 写
after-two-things 做作业 听音乐 洗衣服
although-compare 贵
as-soon-as 下个星期六
attributive-adjective 有意思 有用
ba-place 卡车
because 叔叔 张先生
because-relative 打印机 洗衣机 脏
begin 学习 学汉语 工作
bei-person 爸爸
both-and 大 安静 聪明
but 好看
causative-let 丈夫 妈妈
clock-event 休息 写信 睡觉
compare 努力 友好 好吃
compare-less 瘦
dative 妹妹 母亲 邮件
degree-complement 打网球 游泳 跑步
duration 今天早上
existence 书包 床
existence-verb 上
frequency 开会
future 小提琴 故事
future-go 今年夏天
future-negative 下周
go-past 刚才
habitual 写日记
have-people 儿子 弟弟
help 倒垃圾 洗碗 订
if 小明 李娜 陈小姐
if-request 信
just-now 搬
location 书桌 包 椅子
modal-have-to 检查
modal-know-how 开车
modal-prepare 喂
modal-should 发
negation-past 上个星期
not-only-but 新
past 卖 寄
past-place 学英语
perception 女儿 爷爷
plural-men 医生 孩子 客人
possessive 安娜 小红 阿姨
potential 看完
progressive 修 洗 翻译
purpose 聊天
question-a-not-a 吃 喝 戴
question-what-time 起床
question-who 用
question-yes-no 昨天下午
relative-ba 女孩 男人 男孩
relative-object 王芳 钢笔
relative-subject 同事 认真
relative-topic 做 干净 漂亮
say-that 下个星期
sequence 刷牙 加班 洗澡
shi-de 骑自行车
simultaneous 吃早饭 吃晚饭 看电视
suggestion 今晚
think-compare 借 选
think-that 健康 好喝 矮
together 妻子 购物
topic-fronting 听 看 穿
transport 上海 广州
when-past 奶奶
"""

HELD_OUT: frozenset[tuple[str, str]] = frozenset(
    (row.split()[0], word) for row in TABLE.strip().splitlines() for word in row.split()[1:]
)

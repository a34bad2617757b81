"""The hand-made lexicon: compact tables, one word a line (spaces inside a word are written as _)."""

from __future__ import annotations

from dataclasses import dataclass, field

import english


@dataclass(frozen=True)
class Word:
    """A lexical entry with its translation and semantic tags."""

    zh: str
    en: str
    tags: frozenset[str] = field(default=frozenset())

    @property
    def key(self) -> str:
        return f"{self.zh}/{self.en}"


@dataclass(frozen=True)
class Noun(Word):
    """A noun: measure word, and kind count, mass, pair (a pair of shoes) or plural."""

    measure: str = "个"
    kind: str = "count"
    unit: str = ""  # English for the measure word of mass nouns: cup, bowl

    @property
    def plural(self) -> str:
        return english.plural(self.en) if self.kind == "count" else self.en

    @property
    def known(self) -> str:
        """The form after "the" when Chinese has the bare noun: small things come in numbers, the apples."""
        return self.plural if "plural" in self.tags else self.en


@dataclass(frozen=True)
class Verb(Word):
    """A transitive verb; tags are the object classes it takes, `*` in en marks the place of the object."""

    habit: bool = True

    def fill(self, thing: str) -> str:
        """The English verb phrase with this object."""
        return self.en.replace("*", thing) if "*" in self.en else f"{self.en} {thing}"


@dataclass(frozen=True)
class Activity(Word):
    """An intransitive or verb-object phrase; verb and rest are its separable halves."""

    verb: str = ""
    rest: str = ""


def _rows(table: str) -> list[list[str]]:
    return [[cell.replace("_", " ") for cell in line.split()] for line in table.strip().splitlines() if line.strip()]


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.replace(",", " ").split())


def _nouns(tags: str, table: str, kind: str = "count") -> list[Noun]:
    """Rows: zh en measure [unit, unless count] [extra tags]."""
    out = []
    for zh, en, measure, *more in _rows(table):
        unit = more.pop(0) if kind in ("mass", "pair") else ""
        extra = more[0] if more else ""
        out.append(Noun(zh, en, _tags(f"{tags} {extra}"), measure, kind, unit))
    return out


def _words(table: str) -> list[Word]:
    """Rows: zh en [tags]."""
    return [Word(row[0], row[1], _tags(row[2] if len(row) > 2 else "")) for row in _rows(table)]


NOUNS: list[Noun] = [
    *_nouns(
        "animal draw see",
        """
        猫 cat 只 pet,biter
        狗 dog 只 pet,biter
        鸟 bird 只 pet
        兔子 rabbit 只 pet
        鱼 fish 条 pet
        马 horse 匹 rideable
        牛 cow 头 farm
        羊 sheep 只 farm
        猪 pig 头 farm
        鸡 chicken 只 farm
        鸭子 duck 只 farm
        老虎 tiger 只 wild
        猴子 monkey 只 wild
        熊猫 panda 只 wild
        大象 elephant 头 wild
        狮子 lion 头 wild
        蛇 snake 条 wild
        老鼠 mouse 只
        狐狸 fox 只 wild
        乌龟 turtle 只 pet
        """,
    ),
    *_nouns(
        "read port buy borrow small gift own volume",
        """
        书 book 本 write
        小说 novel 本 write
        杂志 magazine 本
        词典 dictionary 本 ref
        报纸 newspaper 份
        课本 textbook 本 ref
        漫画 comic_book 本
        """,
    ),
    *_nouns(
        "read paper",
        """
        信 letter 封 write,small,post
        报告 report 份 write
        文章 article 篇 write
        邮件 email 封 write,mail
        故事 story 个 write,tell
        诗 poem 首 write
        日记 diary 本 small,nopaper
        合同 contract 份 small
        """,
    ),
    *_nouns(
        "watch",
        """
        电影 movie 部
        电视剧 TV_series 部
        比赛 match 场
        节目 program 个
        表演 performance 场
        视频 video 个
        """,
    ),
    *_nouns("music", "歌 song 首\n歌剧 opera 部\n民歌 folk_song 首"),
    *_nouns(
        "port buy borrow small own use lose find",
        """
        笔 pen 支
        铅笔 pencil 支
        钢笔 fountain_pen 支 gift
        本子 notebook 个
        橡皮 eraser 块
        尺子 ruler 把
        雨伞 umbrella 把
        手电筒 flashlight 个
        地图 map 张 draw
        充电器 charger 个
        计算器 calculator 个
        """,
    ),
    *_nouns(
        "port buy small own lose find",
        """
        钱包 wallet 个 gift
        包 bag 个 gift,container
        书包 schoolbag 个 gift,container
        行李箱 suitcase 个 container
        箱子 box 个 container
        钥匙 key 把 nobuy
        照片 photo 张 nobuy,take
        电影票 movie_ticket 张 ticket
        火车票 train_ticket 张 ticket
        飞机票 plane_ticket 张 ticket
        门票 ticket 张 ticket
        护照 passport 本 nobuy
        身份证 ID_card 张 nobuy
        信用卡 credit_card 张 nobuy
        名片 business_card 张 nobuy
        手表 watch 块 gift,accessory,fixable
        戒指 ring 枚 gift,accessory
        项链 necklace 条 gift,accessory
        玩具 toy 个 gift
        篮球 basketball 个 gift
        足球 soccer_ball 个 gift
        礼物 gift 件 present
        毛巾 towel 条 wash
        牙刷 toothbrush 支
        枕头 pillow 个
        相册 photo_album 本 gift
        """,
    ),
    *_nouns(
        "furniture buy move own",
        """
        桌子 table 张 top
        椅子 chair 把 top
        床 bed 张 top
        沙发 sofa 张 top
        柜子 cabinet 个 inside
        书架 bookshelf 个 top
        书桌 desk 张 top
        镜子 mirror 面
        """,
    ),
    *_nouns(
        "machine buy fixable own",
        """
        冰箱 fridge 台 inside
        洗衣机 washing_machine 台
        空调 air_conditioner 台 switch
        电视 TV 台 switch
        电脑 computer 台 switch,use
        打印机 printer 台 use
        微波炉 microwave 台 use
        照相机 camera 台 use,port,borrow,small,lose,gift,find
        手机 phone 部 use,port,small,lose,gift,find,switch
        灯 lamp 盏 switch,small
        闹钟 alarm_clock 个 small
        吹风机 hair_dryer 个 use,small,port
        """,
    ),
    *_nouns(
        "buy break small wash own",
        """
        杯子 cup 个 gift
        盘子 plate 个
        碗 bowl 个
        花瓶 vase 个 gift
        刀 knife 把 nobreak
        叉子 fork 把 nobreak
        勺子 spoon 把 nobreak
        瓶子 bottle 个
        """,
    ),
    *_nouns("opening", "门 door 扇\n窗户 window 扇 break"),
    *_nouns("plant draw", "花 flower 朵 plural,buy,gift,small,pretty\n树 tree 棵\n玫瑰 rose 朵 plural,buy,gift,pretty"),
    *_nouns("art buy gift see", "画 painting 幅 paint"),
    *_nouns("instrument buy borrow own", "吉他 guitar 把 pluck\n钢琴 piano 架 pluck\n小提琴 violin 把 bow"),
    *_nouns(
        "vehicle buy fixable own",
        """
        车 car 辆 drive,rent,park,wash
        自行车 bike 辆 rideable,borrow,rent,wash
        摩托车 motorcycle 辆 rideable,park
        卡车 truck 辆 drive,park
        """,
    ),
    *_nouns("transport", "公共汽车 bus 辆\n火车 train 列\n飞机 plane 架\n出租车 taxi 辆\n船 boat 条"),
    *_nouns(
        "clothes buy wash own gift port wear",
        """
        衬衫 shirt 件
        裙子 skirt 条
        外套 jacket 件
        大衣 coat 件
        毛衣 sweater 件
        连衣裙 dress 条
        T恤 T-shirt 件
        旗袍 qipao 件
        """,
    ),
    *_nouns(
        "clothes buy own gift port accessory",
        """
        帽子 hat 顶
        围巾 scarf 条 wash
        领带 tie 条
        """,
    ),
    *_nouns(
        "clothes buy own port",
        """
        鞋 shoes 双 pair wash,wear,gift
        袜子 socks 双 pair wash,wear
        手套 gloves 双 pair accessory,gift,lose
        裤子 pants 条 pair wash,wear
        眼镜 glasses 副 pair accessory,lose,find,small
        运动鞋 sneakers 双 pair wash,wear,gift
        耳环 earrings 副 pair accessory,gift,small
        """,
        kind="pair",
    ),
    *_nouns(
        "food buy small",
        """
        苹果 apple 个 fruit,plural
        橙子 orange 个 fruit,plural
        香蕉 banana 根 fruit,plural
        梨 pear 个 fruit,plural
        桃子 peach 个 fruit,plural
        西瓜 watermelon 个 fruit,large
        草莓 strawberry 颗 fruit,plural
        芒果 mango 个 fruit,plural
        鸡蛋 egg 个 raw,plural
        包子 steamed_bun 个 make,plural
        饺子 dumpling 个 make,plural
        三明治 sandwich 个 make
        汉堡 hamburger 个 make
        蛋糕 cake 个 make,gift
        饼干 cookie 块 make,plural
        土豆 potato 个 raw,plural
        西红柿 tomato 个 raw,plural
        胡萝卜 carrot 根 raw,plural
        月饼 mooncake 个 make,plural
        """,
    ),
    *_nouns(
        "food buy",
        """
        米饭 rice 碗 bowl cook
        面条 noodles 碗 bowl cook,plural
        面包 bread 片 slice bake
        牛肉 beef 块 piece raw
        羊肉 lamb 块 piece raw
        巧克力 chocolate 块 piece gift
        比萨 pizza 块 slice
        奶酪 cheese 块 piece
        豆腐 tofu 块 piece
        沙拉 salad 份 serving cook
        炒饭 fried_rice 盘 plate cook
        """,
        kind="mass",
    ),
    *_nouns(
        "drink buy",
        """
        水 water 杯 glass
        茶 tea 杯 cup
        绿茶 green_tea 杯 cup
        咖啡 coffee 杯 cup
        牛奶 milk 杯 glass
        果汁 juice 杯 glass
        橙汁 orange_juice 杯 glass
        啤酒 beer 瓶 bottle
        红酒 red_wine 瓶 bottle gift
        可乐 cola 罐 can
        矿泉水 mineral_water 瓶 bottle
        酸奶 yogurt 杯 cup
        汤 soup 碗 bowl cook,nobuy
        """,
        kind="mass",
    ),
]

JOBS: list[Noun] = _nouns(
    "person job",
    """
    老师 teacher 位 school
    学生 student 个 school
    医生 doctor 位 see
    护士 nurse 位
    警察 police_officer 个
    司机 driver 个
    工程师 engineer 个
    律师 lawyer 个 see
    记者 reporter 个
    演员 actor 个
    歌手 singer 个
    作家 writer 个
    画家 painter 个
    厨师 chef 个
    服务员 waiter 个
    经理 manager 个 see
    秘书 secretary 个
    农民 farmer 个
    工人 worker 个
    科学家 scientist 位
    校长 principal 个 see
    教授 professor 位 school
    翻译 translator 个
    导游 tour_guide 个
    运动员 athlete 个
    会计 accountant 个
    飞行员 pilot 个
    音乐家 musician 个
    牙医 dentist 个 see
    程序员 programmer 个
    大学生 college_student 个 school
    """,
)
PEOPLE: list[Noun] = _nouns(
    "person",
    """
    朋友 friend 个 have
    同学 classmate 个 have
    同事 colleague 个 have
    邻居 neighbor 个 have
    孩子 child 个 have,kid
    男孩 boy 个 kid
    女孩 girl 个 kid
    客人 guest 位
    室友 roommate 个 have
    老板 boss 个
    男人 man 个
    女人 woman 个
    外国人 foreigner 个
    游客 tourist 个
    """,
)
# The third column is the pronoun gender.
KIN: list[Word] = _words(
    """
    妈妈 mother f,parent
    母亲 mother f,parent
    爸爸 father m,parent
    父亲 father m,parent
    哥哥 older_brother m,sibling
    弟弟 younger_brother m,sibling,young
    姐姐 older_sister f,sibling
    妹妹 younger_sister f,sibling,young
    爷爷 grandfather m,old
    奶奶 grandmother f,old
    叔叔 uncle m
    阿姨 aunt f
    儿子 son m,young,child
    女儿 daughter f,young,child
    丈夫 husband m,spouse
    妻子 wife f,spouse
    """
)
NAMES: list[Word] = _words(
    """
    小明 Xiaoming m,given
    李华 Li_Hua m,given
    张伟 Zhang_Wei m,given
    王强 Wang_Qiang m,given
    小刚 Xiaogang m,given
    大卫 David m,given
    汤姆 Tom m,given
    约翰 John m,given
    小红 Xiaohong f,given
    王芳 Wang_Fang f,given
    李娜 Li_Na f,given
    小丽 Xiaoli f,given
    玛丽 Mary f,given
    安娜 Anna f,given
    刘梅 Liu_Mei f,given
    王老师 Ms._Wang f,title
    李老师 Mr._Li m,title
    张先生 Mr._Zhang m,title
    陈小姐 Miss_Chen f,title
    刘太太 Mrs._Liu f,title
    赵医生 Dr._Zhao m,title
    孙教授 Professor_Sun f,title
    """
)

# en is the phrase after "in/at"; tags: preposition, and what one does there.
PLACES: list[Word] = _words(
    """
    学校 school at,bare,study
    公司 the_company at,work
    医院 the_hospital at,work,wait
    图书馆 the_library at,study,public
    银行 the_bank at,work,shopish
    邮局 the_post_office at,shopish,work
    超市 the_supermarket at,shop,public,work
    商店 the_store at,shop,work
    书店 the_bookstore at,shop,work,public
    饭馆 the_restaurant at,eat,work
    餐厅 the_dining_hall at,eat,meet
    公园 the_park in,sport,public
    机场 the_airport at,wait,work
    火车站 the_train_station at,wait
    地铁站 the_subway_station at,wait
    公共汽车站 the_bus_stop at,wait
    电影院 the_movie_theater at,public,wait
    博物馆 the_museum at,visit,work,public
    动物园 the_zoo at,public,work
    咖啡馆 the_coffee_shop at,eat,wait,work,meet
    酒店 the_hotel at,work,wait
    体育馆 the_gym at,sport
    办公室 the_office in,room,desk
    教室 the_classroom in,room,desk,study
    厨房 the_kitchen in,room,house
    客厅 the_living_room in,room,house
    卧室 the_bedroom in,room,house
    花园 the_garden in,room,house
    院子 the_yard in,room,house
    会议室 the_meeting_room in,room,meet
    大学 the_university at,work,study
    市场 the_market at,shop
    海边 the_beach at,sport
    农村 the_countryside in,live
    药店 the_pharmacy at,shop,work
    面包店 the_bakery at,shop,work
    警察局 the_police_station at,work
    大使馆 the_embassy at,work,visit
    洗手间 the_restroom in,wash
    宿舍 the_dormitory in,study,live
    """
)
CITIES: list[Word] = _words(
    """
    北京 Beijing
    上海 Shanghai
    广州 Guangzhou
    西安 Xi'an
    成都 Chengdu
    南京 Nanjing
    香港 Hong_Kong
    东京 Tokyo
    纽约 New_York
    伦敦 London
    巴黎 Paris
    柏林 Berlin
    莫斯科 Moscow
    悉尼 Sydney
    杭州 Hangzhou
    """
)
# zh of the country, en of the country, then the person/adjective as tag.
COUNTRIES: list[Word] = _words(
    """
    中国 China Chinese
    美国 the_United_States American
    英国 Britain British
    法国 France French
    德国 Germany German
    日本 Japan Japanese
    韩国 South_Korea Korean
    俄罗斯 Russia Russian
    西班牙 Spain Spanish
    意大利 Italy Italian
    加拿大 Canada Canadian
    澳大利亚 Australia Australian
    印度 India Indian
    泰国 Thailand Thai
    越南 Vietnam Vietnamese
    巴西 Brazil Brazilian
    """
)
LANGUAGES: list[Word] = _words(
    """
    汉语 Chinese
    中文 Chinese
    英语 English
    法语 French
    德语 German
    日语 Japanese
    韩语 Korean
    俄语 Russian
    西班牙语 Spanish
    意大利语 Italian
    泰语 Thai
    阿拉伯语 Arabic
    """
)
SUBJECTS: list[Word] = _words(
    """
    数学 math
    历史 history
    音乐 music liked
    艺术 art liked
    物理 physics
    化学 chemistry
    经济 economics
    文学 literature liked
    哲学 philosophy liked
    医学 medicine
    法律 law
    地理 geography
    体育 sports liked
    政治 politics liked
    科学 science liked
    """
)

# Rows: zh en object-classes [nohabit]; the same Chinese verb may have several senses, told apart by the object.
_VERB_ROWS = """
买 buy buy
卖 sell buy
看 read read
看 watch watch
听 listen_to music
唱 sing music
吃 eat food
喝 drink drink
穿 wear wear
戴 wear accessory
写 write write
借 borrow borrow
洗 wash wash
修 repair fixable
找 look_for find nohabit
带 bring port
画 draw draw
画 paint paint
做 make make,cook
用 use use
开 drive drive
骑 ride rideable
喂 feed pet,farm
弹 play pluck
拉 play bow
寄 send post
发 send mail
翻译 translate paper
种 plant plant
搬 move furniture nohabit
订 book ticket
租 rent rent
检查 check machine
选 choose gift nohabit
试 try_on clothes nohabit
讲 tell tell
收到 receive present,post,mail
拍 take take
弄丢 lose lose nohabit
打破 break break nohabit
"""
VERBS: list[Verb] = [Verb(zh, en, _tags(tags), habit=not more) for zh, en, tags, *more in _rows(_VERB_ROWS)]
# Verb and complement, used with 把, 被, 了, 没, topics and (p) the potential form; b marks those natural with 被.
_RESULT_ROWS = """
吃完 finish_eating food p
喝完 finish_drinking drink p
看完 finish_reading read p
看完 finish_watching watch p
写完 finish_writing write,paper p
做好 finish_making make,cook
修好 fix fixable p
找到 find find p
打开 open opening,container p
关上 close opening p
洗干净 wash_*_clean wash p
吃掉 eat_up food b
喝光 drink_up drink b
打破 break break b
弄坏 damage machine b
弄丢 lose lose b
偷走 steal vehicle,instrument,art b
拿走 take_away port,small b
借走 borrow borrow b
卖掉 sell vehicle,furniture,instrument,machine b
扔掉 throw_away read,food,break,clothes b
搬走 move_*_away furniture b
穿上 put_on wear p
脱下来 take_off wear
戴上 put_on accessory p
画完 finish_drawing draw p
翻译完 finish_translating paper p
带来 bring port,food
关掉 turn_off switch b
收起来 put_away port,small
藏起来 hide port,gift b
寄出去 send_out post
忘在家里 leave_*_at_home port
"""
RESULTS: list[Verb] = [
    Verb(row[0], row[1], _tags(f"{row[2]} {'+' + row[3] if len(row) > 3 else ''}")) for row in _rows(_RESULT_ROWS)
]
# Verb and rest are split by +; tags: habit-like hobbies, places, and d for those that last (duration).
_ACTIVITY_ROWS = """
游+泳 swim hobby,d,skill
跑+步 run hobby,d,skill
跳+舞 dance hobby,d,skill
唱+歌 sing hobby,d,skill
画+画 paint hobby,d,skill
打+篮球 play_basketball hobby,d,skill,group
打+网球 play_tennis hobby,d,skill,group
打+乒乓球 play_table_tennis hobby,d,skill,group
踢+足球 play_soccer hobby,d,skill,group
下+象棋 play_chess hobby,d,skill,group
滑+雪 ski hobby,d,skill
滑+冰 skate hobby,d,skill
爬+山 climb_mountains hobby,group
看+电视 watch_TV hobby,d,home
看+书 read hobby,d,home
听+音乐 listen_to_music hobby,d,home
听+广播 listen_to_the_radio hobby,d,home
上+网 surf_the_Internet hobby,d,home
玩+游戏 play_games hobby,d,home
弹+钢琴 play_the_piano hobby,d,skill,home
弹+吉他 play_the_guitar hobby,d,skill,home
拉+小提琴 play_the_violin hobby,d,skill,home
做+饭 cook hobby,d,home,skill,chore
做+作业 do_homework d,home,chore,task
打扫+房间 clean_the_room home,chore,task
洗+衣服 do_the_laundry home,chore,task
洗+碗 do_the_dishes home,chore,task
买+菜 buy_groceries chore,task
倒+垃圾 take_out_the_trash chore,task
散+步 take_a_walk hobby,group,light
旅行 travel hobby,group
购物 go_shopping hobby,group
钓+鱼 go_fishing hobby,d,group
拍照 take_pictures hobby,skill
骑+自行车 ride_a_bike hobby,d,skill
开+车 drive d,skill
聊+天 chat d,group
工作 work d,job
学习 study d,job
上+班 go_to_work routine
上+课 have_class d,routine
开+会 have_a_meeting d,group,task
加+班 work_overtime d,task
睡+觉 sleep d,routine
起+床 get_up routine
吃+早饭 eat_breakfast routine,meal
吃+午饭 eat_lunch routine,meal,group
吃+晚饭 eat_dinner routine,meal,group
洗+澡 take_a_shower routine,home
刷+牙 brush_{p}_teeth routine,home
休息 rest d,light,routine
锻炼+身体 exercise hobby,d,light
学+汉语 study_Chinese d,job,study
学+英语 study_English d,job,study
练+书法 practice_calligraphy hobby,d
练习+口语 practice_speaking d,study
喝+茶 drink_tea hobby,group
打+电话 make_a_phone_call d,task
写+信 write_a_letter d,task
写+日记 keep_a_diary hobby
打+太极拳 do_tai_chi hobby,d,skill
复习+功课 review_{p}_lessons d,study,task
参加+考试 take_an_exam exam
"""
ACTIVITIES: list[Activity] = [
    Activity(zh.replace("+", ""), en, _tags(tags), zh.partition("+")[0], zh.partition("+")[2])
    for zh, en, tags in _rows(_ACTIVITY_ROWS)
]

# zh en classes; classes say what the adjective may describe; a: may stand before a noun without 的.
ADJECTIVES: list[Word] = _words(
    """
    高 tall person,tree,vital
    矮 short person
    胖 fat pet,animal
    瘦 thin person,animal
    漂亮 beautiful female,clothes,gift,garden,city,plant
    好看 pretty clothes,plant,gift
    帅 handsome male
    聪明 smart person,pet,vital
    努力 hard-working person,vital
    年轻 young person,vital
    老 old animal
    可爱 cute pet,kid,toy
    友好 friendly person
    热情 enthusiastic person
    安静 quiet person,room,garden
    有名 famous job,city
    认真 careful person
    忙 busy feel
    累 tired feel
    饿 hungry feel
    渴 thirsty feel
    困 sleepy feel
    高兴 happy feel
    难过 sad feel
    生气 angry feel
    紧张 nervous feel
    担心 worried feel
    兴奋 excited feel
    无聊 bored feel
    大 big a,thing,animal,room,furniture,container,tree,city,house
    小 small a,thing,animal,room,furniture,container,house
    新 new a,thing,furniture,machine,vehicle,clothes,volume
    旧 old a,thing,furniture,machine,vehicle,clothes,volume,container
    贵 expensive thing,furniture,machine,vehicle,clothes,gift,food2,drink2,instrument,art
    便宜 cheap thing,furniture,machine,vehicle,clothes,instrument,food2
    重 heavy furniture,container,machine,large
    轻 light container,clothes2
    长 long read2,clothes3,watch
    短 short clothes3
    干净 clean room,wash,clothes
    脏 dirty wash,clothes,room,vehicle
    红 red a,color
    黑 black a,color
    白 white a,color
    蓝 blue a,color
    绿 green a,color
    黄 yellow a,color
    好吃 delicious food
    好喝 tasty drink
    甜 sweet fruit,cake
    酸 sour fruit
    辣 spicy hotfood
    新鲜 fresh fruit,raw
    热 hot weather,drink2,soup
    冷 cold weather
    暖和 warm weather,clothes2
    凉快 cool weather
    有意思 interesting read,watch,work,city
    没意思 boring watch,work
    难 difficult study,exam
    容易 easy study,exam
    重要 important meet,exam,paper
    有用 useful ref,use
    快 fast vehicle
    方便 convenient live
    舒服 comfortable furniture2,wear
    健康 healthy person,old
    亮 bright room
    吵 noisy city
    危险 dangerous wild
    """
)
COLOURS = [word for word in ADJECTIVES if "color" in word.tags]

PAST_TIMES: list[Word] = _words(
    """
    昨天 yesterday day
    前天 the_day_before_yesterday day
    昨天早上 yesterday_morning part
    昨天下午 yesterday_afternoon part
    昨天晚上 last_night part
    昨晚 last_night part
    上个星期 last_week
    上周 last_week
    上个月 last_month
    去年 last_year
    去年夏天 last_summer
    今天早上 this_morning part
    三天前 three_days_ago
    两个月前 two_months_ago
    上个周末 last_weekend
    上个星期天 last_Sunday day
    上个星期五 last_Friday day
    刚才 just_now
    """
)
FUTURE_TIMES: list[Word] = _words(
    """
    明天 tomorrow day
    后天 the_day_after_tomorrow day
    明天早上 tomorrow_morning part
    明天下午 tomorrow_afternoon part
    明天晚上 tomorrow_evening part
    今天晚上 tonight part
    今晚 tonight part
    下个星期 next_week
    下周 next_week
    下个月 next_month
    明年 next_year
    下个星期一 next_Monday day
    下个星期六 next_Saturday day
    这个周末 this_weekend
    今年夏天 this_summer
    """
)
HABIT_TIMES: list[Word] = _words(
    """
    每天 every_day day
    每天早上 every_morning day
    每天晚上 every_evening day
    每个星期 every_week
    每个周末 every_weekend day
    每个星期六 every_Saturday day
    每个月 every_month
    """
)
ADVERBS: list[Word] = _words(
    """
    常常 often
    经常 often
    总是 always
    有时候 sometimes
    一般 usually
    很少 rarely
    从来不 never
    """
)
DEGREES: list[Word] = _words(
    """
    很 very
    非常 extremely
    有点儿 a_little
    不太 not_very
    真 really
    特别 especially
    """
)
TRANSPORT: list[Word] = _words(
    """
    坐公共汽车 by_bus city
    坐地铁 by_subway city
    坐火车 by_train far
    坐飞机 by_plane far
    坐船 by_boat far
    坐出租车 by_taxi city
    开车 by_car city,far
    骑自行车 by_bike city
    走路 on_foot city
    坐高铁 by_high-speed_train far
    """
)
POSITIONS: list[Word] = _words(
    """
    上 on top
    下面 under under
    旁边 next_to by
    里 in in
    后面 behind by
    前面 in_front_of by
    左边 to_the_left_of by
    右边 to_the_right_of by
    对面 across_from place
    附近 near place
    """
)
WEEKDAYS: list[Word] = _words(
    """
    星期一 Monday
    星期二 Tuesday
    星期三 Wednesday
    星期四 Thursday
    星期五 Friday
    星期六 Saturday
    星期天 Sunday
    """
)
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
SEASONS: list[Word] = _words("春天 spring\n夏天 summer\n秋天 fall\n冬天 winter")
# Degree complements: manner adverbs and the activities they fit.
MANNERS: list[Word] = _words(
    """
    很快 very_fast fast
    很慢 very_slowly slow
    很好 very_well well
    不错 quite_well well
    不好 badly well
    不太好 not_very_well well
    非常好 extremely_well well
    """
)
HEALTH: list[Word] = _words(
    """
    头疼 have_a_headache
    肚子疼 have_a_stomachache
    牙疼 have_a_toothache
    感冒了 have_a_cold
    发烧了 have_a_fever
    嗓子疼 have_a_sore_throat
    咳嗽 have_a_cough
    生病了 be_sick
    腿疼 have_a_sore_leg
    背疼 have_a_backache
    """
)
FIXED: list[tuple[str, str]] = [
    ("你好", "Hello."),
    ("您好", "Hello."),
    ("大家好", "Hello, everyone."),
    ("早上好", "Good morning."),
    ("晚上好", "Good evening."),
    ("下午好", "Good afternoon."),
    ("晚安", "Good night."),
    ("再见", "Goodbye."),
    ("明天见", "See you tomorrow."),
    ("一会儿见", "See you later."),
    ("下周见", "See you next week."),
    ("谢谢", "Thank you."),
    ("谢谢你的帮助", "Thank you for your help."),
    ("非常感谢", "Thank you very much."),
    ("不客气", "You are welcome."),
    ("对不起", "I am sorry."),
    ("没关系", "It doesn't matter."),
    ("请问", "Excuse me."),
    ("请进", "Please come in."),
    ("请坐", "Please sit down."),
    ("祝你生日快乐", "Happy birthday to you!"),
    ("新年快乐", "Happy New Year!"),
    ("祝你好运", "Good luck!"),
    ("一路平安", "Have a safe trip!"),
    ("很高兴认识你", "Nice to meet you."),
    ("欢迎来北京", "Welcome to Beijing!"),
    ("好久不见", "Long time no see."),
    ("没问题", "No problem."),
    ("当然可以", "Of course you can."),
    ("我也是", "Me too."),
    ("太好了", "That's great!"),
    ("小心", "Be careful!"),
    ("别担心", "Don't worry."),
    ("请稍等", "Please wait a moment."),
    ("我不知道", "I don't know."),
    ("我明白了", "I see."),
    ("祝贺你", "Congratulations!"),
    ("干杯", "Cheers!"),
    ("生日快乐", "Happy birthday!"),
    ("保重", "Take care."),
]


def noun_with(*tags: str, without: str = "") -> list[Noun]:
    """Nouns that carry any of the tags, and not the other one."""
    return [noun for noun in NOUNS if noun.tags & set(tags) and without not in noun.tags]


def tagged(words: list, tag: str) -> list:
    """The words that carry the tag."""
    return [word for word in words if tag in word.tags]
